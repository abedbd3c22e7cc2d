package addon

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func source(name, order, versions, clusters string, documents ...string) corev1.ConfigMap {
	annotations := map[string]string{}
	for key, value := range map[string]string{
		OrderAnnotation: order, VersionsAnnotation: versions, ClusterSelectorAnnotation: clusters,
	} {
		if value != "" {
			annotations[key] = value
		}
	}
	return corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, Labels: map[string]string{Label: name}, Annotations: annotations,
		},
		Data: map[string]string{"a.yaml": strings.Join(documents, "\n---\n")},
	}
}

func config(name string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: shop}\ndata: {colour: red}\n",
		name)
}

const (
	namespace  = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"
	definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n" +
		"metadata: {name: things.example.org}\n"
	list = `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one"}},{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"two"}}]}`
)

func TestChoose(t *testing.T) {
	for name, c := range map[string]struct {
		sources []corev1.ConfigMap
		version string
		want    string // the objects in order, or the error
	}{
		"no ConfigMaps": {nil, "v1.36.3", ""},
		"namespaces and definitions come first": {[]corev1.ConfigMap{
			source("a", "", "", "", config("x"), definition, namespace),
		}, "v1.36.3",
			"Namespace shop, CustomResourceDefinition things.example.org, ConfigMap shop/x"},
		"the order annotation counts before the name": {[]corev1.ConfigMap{
			source("a", "10", "", "", config("late")), source("c", "-1", "", "", config("early")),
			source("d", "", "", "", config("w")), source("b", "", "", "", config("x")),
		}, "v1.36.3", "ConfigMap shop/early, ConfigMap shop/x, ConfigMap shop/w, ConfigMap shop/late"},
		"documents keep their order": {[]corev1.ConfigMap{source("a", "", "", "", config("z"), "", config("b"))},
			"v1.36.3", "ConfigMap shop/z, ConfigMap shop/b"},
		"a List is expanded": {[]corev1.ConfigMap{source("a", "", "", "", list)}, "v1.36.3",
			"ConfigMap one, ConfigMap two"},
		"a range of versions that fits": {[]corev1.ConfigMap{source("a", "", ">=1.35 <1.37", "", config("x"))},
			"v1.36.3", "ConfigMap shop/x"},
		"a range that begins later": {[]corev1.ConfigMap{source("a", "", ">=1.36.4", "", config("x"))},
			"v1.36.3", ""},
		"a range that has ended": {[]corev1.ConfigMap{source("a", "", "<1.36", "", config("x"))},
			"v1.36.3", ""},
		"one of two ConfigMaps, by the version": {
			[]corev1.ConfigMap{source("a", "", "~1.35", "", config("x")), source("b", "", "~1.36", "", config("x"))}, "v1.35.0",
			"ConfigMap shop/x",
		},
		"a pre-release is like its release": {[]corev1.ConfigMap{source("a", "", ">=1.36", "", config("x"))},
			"v1.36.0-rc.1+build", "ConfigMap shop/x"},
		"Clusters by label": {
			[]corev1.ConfigMap{source("a", "", "", "env=test", config("x")), source("b", "", "", "env!=test", config("w"))},
			"v1.36.3", "ConfigMap shop/x",
		},
		"an invalid selector": {[]corev1.ConfigMap{source("a", "", "", "env in", config("x"))}, "v1.36.3",
			"ConfigMap a: annotation addons.capstan.dev/cluster-selector must be a label selector"},
		"an invalid range": {[]corev1.ConfigMap{source("a", "", "new", "", config("x"))}, "v1.36.3",
			"annotation addons.capstan.dev/kubernetes-versions must be a constraint on versions"},
		"an invalid order": {[]corev1.ConfigMap{source("a", "first", "", "", config("x"))}, "v1.36.3",
			"annotation addons.capstan.dev/order must be a whole number"},
		"an invalid version": {[]corev1.ConfigMap{source("a", "", "", "", config("x"))}, "latest",
			`version "latest" of the Cluster is not a version of Kubernetes`},
		"invalid YAML": {[]corev1.ConfigMap{source("a", "", "", "", config("x"), "a: b: c")},
			"v1.36.3", "ConfigMap a, key a.yaml: document 2 is not the YAML of an object"},
		"neither apiVersion nor name": {[]corev1.ConfigMap{source("a", "", "", "", "kind: ConfigMap")}, "v1.36.3",
			"ConfigMap a, key a.yaml: object 1: it needs apiVersion, kind and metadata.name"},
		"an object with a generated name": {
			[]corev1.ConfigMap{source("a", "", "", "", "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: x}")},
			"v1.36.3", "it needs apiVersion, kind and metadata.name",
		},
		"the same object in two ConfigMaps": {
			[]corev1.ConfigMap{source("a", "", "", "", config("x")), source("b", "", "", "", config("x"))}, "v1.36.3",
			"ConfigMap shop/x is in a/a.yaml and in b/a.yaml: an object can be in one add-on only",
		},
		"too many objects": {
			[]corev1.ConfigMap{source("a", "", "", "", strings.Repeat("---\n"+config("x"), 1001))}, "v1.36.3",
			"more than 1000 objects",
		},
		"what is not chosen is not parsed": {[]corev1.ConfigMap{source("a", "", "<1", "", "a: b: c")}, "v1.36.3", ""},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := Choose(c.sources, map[string]string{"env": "test"}, c.version)
			var refs []string
			for _, o := range objects {
				refs = append(refs, o.Ref.String())
			}
			got := strings.Join(refs, ", ")
			if err != nil {
				if got = err.Error(); c.want == "" || !strings.Contains(got, c.want) {
					t.Errorf("error is %s, want %q", got, c.want)
				}
			} else if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// Fields that an API server wrote are not applied and do not change the hash.
func TestWhatAnAPIServerWroteIsLeftOut(t *testing.T) {
	plain, err := Choose([]corev1.ConfigMap{source("a", "", "", "", config("x"))}, nil, "v1.36.3")
	if err != nil {
		t.Fatal(err)
	}
	exported := strings.Replace(config("x"), "namespace: shop",
		"namespace: shop, uid: u, resourceVersion: '7', managedFields: []", 1) + "status: {phase: old}\n"
	taken, err := Choose([]corev1.ConfigMap{source("a", "", "", "", exported)}, nil, "v1.36.3")
	if err != nil || taken[0].Hash != plain[0].Hash {
		t.Errorf("got %+v, want %+v, error %v", taken, plain, err)
	}
}
