package release

import (
	"bytes"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// raw reads the documents of a template as they are in the file, before clusterctl processes them. It replaces a
// variable ${NAME} or ${NAME:=default} by the text $NAME.
func raw(t *testing.T, text []byte) []*unstructured.Unstructured {
	t.Helper()
	quoted := regexp.MustCompile(`"?\$\{(\w+)(?::=[^}]*)?\}"?`).ReplaceAll(text, []byte("$$$1"))
	return objects(t, quoted)
}

// templateFiles returns the cluster templates of the release, or its ClusterClasses, by file name.
func templateFiles(t *testing.T, prefix string) Files {
	t.Helper()
	found := Files{}
	for name, text := range repository(t, options).in(Infrastructure, options.Version) {
		if strings.HasPrefix(name, prefix) {
			found[name] = text
		}
	}
	if len(found) < 2 {
		t.Fatalf("the release has %d files %s*", len(found), prefix)
	}
	return found
}

// names returns KIND/NAME of all objects.
func names(all []*unstructured.Unstructured) map[string]bool {
	has := map[string]bool{}
	for _, o := range all {
		has[o.GetKind()+"/"+o.GetName()] = true
	}
	return has
}

// mention is a reference from one object to another.
type mention struct{ what, namespace string }

// references finds all references in a value that have a kind and a name.
func references(value any) (found []mention) {
	switch v := value.(type) {
	case map[string]any:
		kind, _ := v["kind"].(string)
		name, _ := v["name"].(string)
		if kind != "" && name != "" {
			namespace, _ := v["namespace"].(string)
			found = append(found, mention{kind + "/" + name, namespace})
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			found = append(found, references(v[key])...)
		}
	case []any:
		for _, item := range v {
			found = append(found, references(item)...)
		}
	}
	return found
}

// TestTemplateFiles checks the published files of cluster templates.
func TestTemplateFiles(t *testing.T) {
	files := templateFiles(t, templatePrefix)
	t.Attr("rule", "CT-61")
	classes := templateFiles(t, classPrefix)
	for name, text := range files {
		flavor := strings.TrimSuffix(strings.TrimPrefix(name, "cluster-template"), ".yaml")
		if !regexp.MustCompile(`^(-[a-z0-9]+)*$`).MatchString(flavor) {
			t.Errorf("%s is not called cluster-template-{flavor}.yaml", name)
		}
		t.Attr("rule", "CT-66")
		all := raw(t, text)
		has := names(all)
		spaces := map[string]bool{}
		for _, o := range all {
			if o.GetKind() == "Namespace" {
				t.Errorf("%s contains Namespace %s: the namespace must exist already", name, o.GetName())
			}
			t.Attr("rule", "CT-68")
			spaces[o.GetNamespace()] = true
			for _, r := range references(o.Object["spec"]) {
				if !has[r.what] {
					t.Errorf("%s refers to %s, which it does not contain", name, r.what)
				}
			}
			t.Attr("rule", "CT-62")
		}
		if len(spaces) != 1 || !spaces[""] && !spaces["$NAMESPACE"] {
			t.Errorf(
				"%s puts its objects into %v: want one, ${NAMESPACE} or none",
				name,
				slices.Sorted(maps.Keys(spaces)),
			)
		}
		t.Attr("rule", "CT-69")
		topology, ok, _ := unstructured.NestedMap(all[0].Object, "spec", "topology")
		if !ok {
			continue
		}
		class, _, _ := unstructured.NestedString(topology, "classRef", "name")
		if len(all) != 1 || all[0].GetKind() != "Cluster" || classes["clusterclass-"+class+".yaml"] == nil {
			t.Errorf(
				"%s has %d objects and class %q: want a Cluster alone, and its class in the release",
				name,
				len(all),
				class,
			)
		}
		t.Attr("rule", "CT-63")
		t.Attr("rule", "CT-79")
	}
}

// TestTemplateFilesStandBesideComponents: templates and classes are in the directory of the components, because
// clusterctl looks for them there.
func TestTemplateFilesStandBesideComponents(t *testing.T) {
	found := map[string]int{}
	for name := range repository(t, options) {
		directory, file, _ := strings.Cut(name, options.Version+"/")
		for _, prefix := range []string{templatePrefix, classPrefix} {
			if !strings.HasPrefix(file, prefix) {
				continue
			}
			found[prefix]++
			if repository(t, options)[directory+options.Version+"/infrastructure-components.yaml"] == nil {
				t.Errorf("%s is not in the directory of the components", name)
			}
		}
	}
	if found[templatePrefix] == 0 {
		t.Error("the release has no cluster templates")
	}
	t.Attr("rule", "CT-64")
	if found[classPrefix] == 0 {
		t.Error("the release has no ClusterClasses")
	}
	t.Attr("rule", "CT-77")
}

// TestTemplatesUseTheCommonVariables: the values of generate cluster's flags end up in the right fields.
func TestTemplatesUseTheCommonVariables(t *testing.T) {
	for name, text := range templateFiles(t, templatePrefix) {
		seen := map[string]int{}
		for _, o := range raw(t, text) {
			if o.GetKind() == "Cluster" {
				seen[o.GetName()]++
			}
			for field, parts := range map[string][]string{
				"version": {"spec", "version"}, "machine version": {"spec", "template", "spec", "version"},
				"topology": {"spec", "topology", "version"}, "replicas": {"spec", "replicas"},
				"control plane": {"spec", "topology", "controlPlane", "replicas"},
			} {
				value, ok, _ := unstructured.NestedFieldNoCopy(o.Object, parts...)
				if !ok {
					continue
				}
				if text, isText := value.(string); !isText || !strings.HasPrefix(text, "$") {
					t.Errorf("%s: %s of %s %s is %v, not a variable", name, field, o.GetKind(), o.GetName(), value)
				} else {
					seen[text]++
				}
			}
			workers, _, _ := unstructured.NestedSlice(o.Object, "spec", "topology", "workers", "machineDeployments")
			for _, w := range workers {
				if m, ok := w.(map[string]any); ok {
					replicas, _ := m["replicas"].(string)
					seen[replicas]++
				}
			}
		}
		for _, v := range []string{
			"CLUSTER_NAME", "KUBERNETES_VERSION", "CONTROL_PLANE_MACHINE_COUNT", "WORKER_MACHINE_COUNT",
		} {
			if seen["$"+v] == 0 {
				t.Errorf("%s does not use ${%s} where it belongs: %v", name, v, seen)
			}
			delete(seen, "$"+v)
		}
		if len(seen) > 0 {
			t.Errorf("%s has other variables for these values: %v", name, seen)
		}
		t.Attr("rule", "CT-72")
	}
}

// TestClassFiles checks the published files of ClusterClasses.
func TestClassFiles(t *testing.T) {
	files := templateFiles(t, classPrefix)
	t.Attr("rule", "CT-05")
	t.Attr("rule", "CT-75")
	owner := map[string]string{}
	for name, text := range files {
		all := raw(t, text)
		has := names(all)
		class := strings.TrimSuffix(strings.TrimPrefix(name, "clusterclass-"), ".yaml")
		if !has["ClusterClass/"+class] {
			t.Errorf("%s does not have the ClusterClass %s", name, class)
		}
		t.Attr("rule", "CT-78")
		if bytes.Contains(text, []byte("${")) {
			t.Errorf("%s has variables of the environment", name)
		}
		t.Attr("rule", "CT-85")
		for _, o := range all {
			if o.GetKind() == "Namespace" {
				t.Errorf("%s contains Namespace %s: the namespace must exist already", name, o.GetName())
			}
			t.Attr("rule", "CT-81")
			if o.GetNamespace() != "" {
				t.Errorf("%s: %s %s names namespace %s", name, o.GetKind(), o.GetName(), o.GetNamespace())
			}
			t.Attr("rule", "CT-83")
			what := o.GetKind() + "/" + o.GetName()
			if other := owner[what]; other != "" {
				t.Errorf("%s is in %s and in %s", what, other, name)
			}
			owner[what] = name
			t.Attr("rule", "CT-84")
			for _, r := range references(o.Object["spec"]) {
				if !has[r.what] {
					t.Errorf("%s refers to %s, which it does not contain", name, r.what)
				}
				t.Attr("rule", "CT-76")
				if r.namespace != "" {
					t.Errorf("%s: the reference to %s names namespace %s", name, r.what, r.namespace)
				}
				t.Attr("rule", "CT-82")
			}
		}
	}
}
