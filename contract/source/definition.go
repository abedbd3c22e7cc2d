package source

import (
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/version"
)

// Definition is a CustomResourceDefinition of a release.
type Definition struct {
	*Object
	// CRD is the decoded definition. It is empty if Problem is not nil.
	CRD apiextensionsv1.CustomResourceDefinition
	// Problem says why the object could not be decoded. It is nil if it could.
	Problem error
}

// Definitions returns the definitions in a file, in order. It decodes them once; the caller must not change them.
func (f *File) Definitions() []*Definition {
	f.decode.Do(func() { f.definitions = f.decodeDefinitions() })
	return f.definitions
}

func (f *File) decodeDefinitions() []*Definition {
	var all []*Definition
	for _, o := range f.Objects {
		if o.Kind() != "CustomResourceDefinition" {
			continue
		}
		d := &Definition{Object: o}
		if d.Problem = o.Decode(&d.CRD); d.Problem != nil {
			d.CRD = apiextensionsv1.CustomResourceDefinition{}
		}
		all = append(all, d)
	}
	return all
}

// Definitions returns the definitions in all components, in order.
func (r *Release) Definitions() []*Definition {
	var all []*Definition
	for _, f := range r.Of(Components) {
		all = append(all, f.Definitions()...)
	}
	return all
}

const contractLabel = "cluster.x-k8s.io/"

// Contract returns the API versions that the definition's label for a contract version lists, in that order, and the
// key of the label. Without a label, or with an empty one, there are none.
func (d *Definition) Contract(contract string) (versions []string, key string) {
	key = contractLabel + contract
	value := d.Label(key)
	if value == "" {
		return nil, key
	}
	return strings.Split(value, "_"), key
}

// Newest returns the API version that core reads for a contract: the highest that the label lists. It is empty if the
// label lists none.
func (d *Definition) Newest(contract string) string {
	versions, _ := d.Contract(contract)
	if len(versions) == 0 {
		return ""
	}
	return slices.MaxFunc(versions, version.CompareKubeAwareVersionStrings)
}

// Schema is a schema in a definition, with its path.
type Schema struct {
	*apiextensionsv1.JSONSchemaProps
	Path []string
}

// Schema returns the schema of an API version. The second result reports whether there is one.
func (d *Definition) Schema(name string) (Schema, bool) {
	for i, v := range d.CRD.Spec.Versions {
		if v.Name == name && v.Schema != nil && v.Schema.OpenAPIV3Schema != nil {
			path := []string{"spec", "versions", strconv.Itoa(i), "schema", "openAPIV3Schema"}
			return Schema{JSONSchemaProps: v.Schema.OpenAPIV3Schema, Path: path}, true
		}
	}
	return Schema{}, false
}

// Property returns the schema of a nested field. If it is missing, Property returns the schema of its nearest ancestor,
// and false.
func (s Schema) Property(names ...string) (Schema, bool) {
	for _, name := range names {
		property, ok := s.Properties[name]
		if !ok {
			return s, false
		}
		s = Schema{JSONSchemaProps: &property, Path: append(slices.Clone(s.Path), "properties", name)}
	}
	return s, true
}

// Items returns the schema of a list's items. The second result reports whether there is one.
func (s Schema) Items() (Schema, bool) {
	if s.JSONSchemaProps.Items == nil || s.JSONSchemaProps.Items.Schema == nil {
		return s, false
	}
	return Schema{JSONSchemaProps: s.JSONSchemaProps.Items.Schema, Path: append(slices.Clone(s.Path), "items")}, true
}
