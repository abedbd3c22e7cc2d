package checks

import (
	"strings"
	"testing"
)

const (
	cluster1 = "apiVersion: cluster.x-k8s.io/v1beta1\nkind: Cluster\nmetadata: {name: a}\n"
	class2   = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: ClusterClass\nmetadata: {name: "
	// user is a Cluster whose class is named by a clusterctl variable. The Cluster sets the class variable size.
	user = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: a}\n" +
		"spec: {topology: {classRef: {name: \"${CLASS}\"}, variables: [{name: size, value: large}]}}\n"
	sized = "{name: size, schema: {openAPIV3Schema: {type: string}}}"
	tall  = "{name: height, required: true, schema: {openAPIV3Schema: {type: string}}}"
)

// patching returns a class with one JSON patch for a cluster's template.
func patching(path, value string) string {
	return class2 + "foo}\nspec:\n  infrastructure: {templateRef: " +
		"{apiVersion: infrastructure.foo.example/v1, kind: FooClusterTemplate, name: foo}}\n" +
		"  patches: [{name: one, definitions: [{selector: {apiVersion: infrastructure.foo.example/v1, " +
		"kind: FooClusterTemplate, matchResources: {infrastructureCluster: true}}, " +
		"jsonPatches: [{op: add, path: " + path + ", value: " + value + "}]}]}]\n"
}

// Each case is something that templates and classes of other providers do. The checks report it if it breaks a rule,
// but not if it only seems to break one.
func TestWhatTemplatesDo(t *testing.T) {
	components := "infrastructure-components.yaml"
	fields := definition("FooCluster", both, "spec: {type: object, properties: {image: {type: string}, "+
		"address: {type: string}}, anyOf: [{properties: {address: {format: ipv4}}}]}")
	foo := "apiVersion: infrastructure.foo.example/v1\nkind: FooCluster\nmetadata: {name: a}\nspec: "
	in := func(namespace, name string) string {
		return "kind: FooClusterTemplate\nmetadata: {name: " + name + ", namespace: " + namespace + "}\n"
	}
	for name, c := range map[string]struct {
		check string
		files map[string]string
		want  int
	}{
		"an empty default in quotes is text": {
			"workload-schema", map[string]string{components: fields, "cluster-template.yaml": foo + "{image: ${A:=\"\"}}\n"}, 0,
		},
		"null where nothing is required": {
			"workload-schema", map[string]string{components: fields, "cluster-template.yaml": foo + "{image: null}\n"}, 0,
		},
		"a number that stands where text belongs": {
			"workload-schema", map[string]string{components: fields, "cluster-template.yaml": foo + "{image: ${A:=5}}\n"}, 1,
		},
		"a variable that has to fit one of several forms": {
			"workload-schema", map[string]string{components: fields, "cluster-template.yaml": foo + "{address: \"${A}\"}\n"}, 0,
		},
		"a value that fits none of several forms": {
			"workload-schema", map[string]string{components: fields, "cluster-template.yaml": foo + "{address: somewhere}\n"}, 2,
		},
		"a file with three objects of an old version": {
			"readiness", map[string]string{"cluster-template.yaml": strings.Repeat(cluster1+"---\n", 3)}, 1,
		},
		"a Cluster whose class is one of two with the same name": {
			"class-clusters", map[string]string{
				"cluster-template.yaml":   user,
				"clusterclass-small.yaml": class2 + "\"${CLASS}\"}\nspec: {variables: [" + sized + "]}\n",
				"clusterclass-tall.yaml":  class2 + "\"${CLASS}\"}\nspec: {variables: [" + tall + "]}\n",
			}, 0,
		},
		"a Cluster that does not set what its class asks for": {
			"class-clusters", map[string]string{
				"cluster-template.yaml":  user,
				"clusterclass-tall.yaml": class2 + "\"${CLASS}\"}\nspec: {variables: [" + sized + ", " + tall + "]}\n",
			}, 1,
		},
		"a patch that sets the whole spec": {
			"class-patches", map[string]string{"clusterclass-foo.yaml": patching("/spec", "{template: {spec: {}}}")}, 0,
		},
		"a patch of a field that only begins like spec": {
			"class-patches", map[string]string{"clusterclass-foo.yaml": patching("/special", "{}")}, 1,
		},
		"objects of a class in the namespace that clusterctl sets": {
			"class-files", map[string]string{"clusterclass-foo.yaml": in("\"${NAMESPACE}\"", "foo")}, 1, // only the variable
		},
		"objects of a class in a fixed namespace": {
			"class-files", map[string]string{"clusterclass-foo.yaml": in("default", "foo")}, 1,
		},
		"objects of two classes that variables name": {
			"class-files", map[string]string{
				"clusterclass-a.yaml": in("\"\"", "\"${A}\""), "clusterclass-b.yaml": in("\"\"", "\"${A}\""),
			}, 2, // only the variables
		},
		"one object in two classes": {
			"class-files", map[string]string{
				"clusterclass-a.yaml": in("\"\"", "foo"), "clusterclass-b.yaml": in("\"\"", "foo"),
			}, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := found(t, c.check, c.files); len(got) != c.want {
				t.Errorf("the check finds %+v, want %d findings", got, c.want)
			}
		})
	}
}
