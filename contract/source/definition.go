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
	// CRD is the definition, typed. It is empty where Problem is not.
	CRD apiextensionsv1.CustomResourceDefinition
	// Problem says why the object is not a definition. Nil: it is.
	Problem error
}

// Definitions returns the definitions of components, in order. They are decoded once: the caller does not change them.
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

// Contract returns the API versions that the definition's label names for a contract version, in the order of the
// label, and the key of that label. No versions: there is no label, or it is empty.
func (d *Definition) Contract(contract string) (versions []string, key string) {
	key = contractLabel + contract
	value := d.Label(key)
	if value == "" {
		return nil, key
	}
	return strings.Split(value, "_"), key
}

// Newest returns the API version that core reads for a contract: the highest one that the label names. Empty: the
// label names none.
func (d *Definition) Newest(contract string) string {
	versions, _ := d.Contract(contract)
	if len(versions) == 0 {
		return ""
	}
	return slices.MaxFunc(versions, version.CompareKubeAwareVersionStrings)
}

// Schema is a schema in a definition, and the path that leads to it.
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

// Property returns the schema of a field below this one. Where it is missing, the second result is false, and the
// first one is the nearest schema above it.
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

// Items returns the schema of the items of a list. The second result reports whether there is one.
func (s Schema) Items() (Schema, bool) {
	if s.JSONSchemaProps.Items == nil || s.JSONSchemaProps.Items.Schema == nil {
		return s, false
	}
	return Schema{JSONSchemaProps: s.JSONSchemaProps.Items.Schema, Path: append(slices.Clone(s.Path), "items")}, true
}
