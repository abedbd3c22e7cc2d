package addon

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/Masterminds/semver/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Labels and annotations of ConfigMaps with an add-on.
const (
	// Label marks a ConfigMap as an add-on; its value names the add-on.
	Label = "addons.capstan.dev/add-on"
	// ClusterSelectorAnnotation is a label selector for Clusters in the same namespace. Without it the add-on is for
	// all of them.
	ClusterSelectorAnnotation = "addons.capstan.dev/cluster-selector"
	// VersionsAnnotation is a constraint on the Kubernetes version, such as ">=1.35 <1.37". Without it the add-on is
	// for all versions.
	VersionsAnnotation = "addons.capstan.dev/kubernetes-versions"
	// OrderAnnotation is an integer; add-ons with smaller values are applied earlier. Default: 0.
	OrderAnnotation = "addons.capstan.dev/order"
)

const (
	// MaxSources is the maximum number of ConfigMaps.
	MaxSources = 200
	// maxObjects is the maximum number of objects for one cluster.
	maxObjects = 1000
)

// Object is an object wanted in a workload cluster.
type Object struct {
	// Ref identifies the object.
	Ref Ref
	// Content is what to apply.
	Content *unstructured.Unstructured
	// Hash identifies the content.
	Hash string
	// Source is "<ConfigMap>/<key>".
	Source string

	phase, order int
}

// Ref identifies an object.
type Ref struct {
	Group     string `json:"group,omitempty"`
	Version   string `json:"version"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// String returns kind, namespace and name.
func (r Ref) String() string {
	if r.Namespace != "" {
		return r.Kind + " " + r.Namespace + "/" + r.Name
	}
	return r.Kind + " " + r.Name
}

// same returns the ref without the version, which is not part of an object's identity.
func (r Ref) same() Ref {
	r.Version = ""
	return r
}

// isCRD and isNamespace select the objects that come first and are never removed.
func (r Ref) isCRD() bool {
	return r.Group == "apiextensions.k8s.io" && r.Kind == "CustomResourceDefinition"
}
func (r Ref) isNamespace() bool { return r.Group == "" && r.Kind == "Namespace" }

// Choose returns the objects for a cluster with these labels and this Kubernetes version, in the order of application.
// The error names the ConfigMap and key of what cannot be used.
func Choose(sources []corev1.ConfigMap, clusterLabels map[string]string, version string) ([]Object, error) {
	kubernetes, err := parseVersion(version)
	if err != nil {
		return nil, err
	}
	var objects []Object
	for i := range sources {
		chosen, order, err := chosen(&sources[i], clusterLabels, kubernetes)
		if err != nil {
			return nil, fmt.Errorf("ConfigMap %s: %w", sources[i].Name, err)
		}
		if !chosen {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(sources[i].Data)) {
			found, err := parse(sources[i].Data[key])
			if err != nil {
				return nil, fmt.Errorf("ConfigMap %s, key %s: %w", sources[i].Name, key, err)
			}
			for _, o := range found {
				o.Source, o.order = sources[i].Name+"/"+key, order
				objects = append(objects, o)
			}
		}
		if len(objects) > maxObjects {
			return nil, fmt.Errorf("add-ons have more than %d objects for one cluster", maxObjects)
		}
	}
	seen := map[Ref]string{}
	for _, o := range objects {
		if other, twice := seen[o.Ref.same()]; twice {
			return nil, fmt.Errorf("%s is in %s and in %s: an object can be in one add-on only", o.Ref, other, o.Source)
		}
		seen[o.Ref.same()] = o.Source
	}
	slices.SortStableFunc(objects, func(a, b Object) int {
		return cmp.Or(cmp.Compare(a.phase, b.phase), cmp.Compare(a.order, b.order), strings.Compare(a.Source, b.Source))
	})
	return objects, nil
}

func parseVersion(version string) (*semver.Version, error) {
	v, err := semver.NewVersion(version)
	if err != nil {
		return nil, fmt.Errorf("version %q of the Cluster is not a version of Kubernetes", version)
	}
	// Constraints would exclude builds and pre-releases, so treat these like the version itself.
	return semver.New(v.Major(), v.Minor(), v.Patch(), "", ""), nil
}

// chosen reports whether a ConfigMap is for a cluster.
func chosen(source *corev1.ConfigMap, clusterLabels map[string]string,
	version *semver.Version) (is bool, order int, err error) {
	selector, err := labels.Parse(source.Annotations[ClusterSelectorAnnotation])
	if err != nil {
		return false, 0, fmt.Errorf("annotation %s must be a label selector, such as environment=test: %w",
			ClusterSelectorAnnotation, err)
	}
	if text, given := source.Annotations[OrderAnnotation]; given {
		if order, err = strconv.Atoi(text); err != nil {
			return false, 0, fmt.Errorf("annotation %s must be a whole number", OrderAnnotation)
		}
	}
	if text, given := source.Annotations[VersionsAnnotation]; given {
		constraint, err := semver.NewConstraint(text)
		if err != nil {
			return false, 0, fmt.Errorf("annotation %s must be a constraint on versions, such as >=1.35 <1.37: %w",
				VersionsAnnotation, err)
		}
		if !constraint.Check(version) {
			return false, 0, nil
		}
	}
	return selector.Matches(labels.Set(clusterLabels)), order, nil
}

// parse reads YAML or JSON documents. It expands Lists.
func parse(text string) ([]Object, error) {
	var objects []Object
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		content := &unstructured.Unstructured{}
		switch err := decoder.Decode(&content.Object); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, fmt.Errorf("document %d is not the YAML of an object: %w", len(objects)+1, err)
		case len(content.Object) == 0:
			continue
		}
		items := []*unstructured.Unstructured{content}
		if content.IsList() {
			items = nil
			err := content.EachListItem(func(item runtime.Object) error {
				one, ok := item.(*unstructured.Unstructured)
				if !ok {
					return fmt.Errorf("an item of the list is a %T", item)
				}
				items = append(items, one)
				return nil
			})
			if err != nil {
				return nil, fmt.Errorf("document %d: %w", len(objects)+1, err)
			}
		}
		for _, item := range items {
			o, err := object(item)
			if err != nil {
				return nil, fmt.Errorf("object %d: %w", len(objects)+1, err)
			}
			objects = append(objects, o)
		}
	}
}

func object(content *unstructured.Unstructured) (o Object, err error) {
	gvk := content.GroupVersionKind()
	if gvk.Version == "" || gvk.Kind == "" || content.GetName() == "" {
		return o, errors.New("it needs apiVersion, kind and metadata.name")
	}
	// Remove what only an API server writes: it cannot be applied.
	content.SetManagedFields(nil)
	content.SetResourceVersion("")
	content.SetUID("")
	unstructured.RemoveNestedField(content.Object, "status")
	data, err := json.Marshal(content.Object)
	if err != nil {
		return o, fmt.Errorf("encoding it: %w", err)
	}
	sum := sha256.Sum256(data)
	o = Object{
		Ref: Ref{
			Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Namespace: content.GetNamespace(), Name: content.GetName(),
		},
		Content: content, Hash: hex.EncodeToString(sum[:16]), phase: 2,
	}
	switch {
	case o.Ref.isNamespace():
		o.phase = 0
	case o.Ref.isCRD():
		o.phase = 1
	}
	return o, nil
}
