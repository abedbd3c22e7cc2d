//go:build linux

package clusterctl

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/yaml"
)

func documents(t *testing.T, text string) (all []*unstructured.Unstructured) {
	t.Helper()
	for document := range bytes.SplitSeq([]byte(text), []byte("\n---\n")) {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &o.Object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if len(o.Object) > 0 {
			all = append(all, o)
		}
	}
	return all
}

// TestGenerateProvider renders our components with default values and with other values (T-CT-01, T-CT-02, T-CT-04).
func TestGenerateProvider(t *testing.T) {
	w := newWorld(t)
	for _, provider := range []string{"--infrastructure", "--runtime-extension"} {
		for _, version := range []string{older, current, newer} {
			if all := documents(t, w.run("generate", "provider", provider, "capstan:"+version)); len(all) < 8 {
				t.Errorf("%s %s has %d objects, want at least 8", provider, version, len(all))
			}
			t.Attr("rule", "CT-27")
		}
	}
	listed := w.run("config", "repositories")
	for _, url := range []string{ // a predefined provider is overridden; a new one is added
		filepath.Join(w.repository, "cluster-api"), filepath.Join(w.repository, "infrastructure-capstan"),
	} {
		if !strings.Contains(listed, url) {
			t.Errorf("clusterctl does not look at %s, as its configuration says, but at\n%s", url, listed)
		}
	}
	t.Attr("rule", "CT-06")

	// Unset and empty variables get the default; others keep their value.
	for value, want := range map[string]string{"-": "--concurrency=10", "": "--concurrency=10", "3": "--concurrency=3"} {
		if w.env = nil; value != "-" {
			w.env = []string{"CAPSTAN_CONCURRENCY=" + value, "CAPSTAN_WATCH_FILTER=x"}
		}
		if out := w.run("generate", "provider", "--infrastructure", "capstan:"+current); !strings.Contains(out, want+"\n") {
			t.Errorf("with CAPSTAN_CONCURRENCY=%q there is no argument %s", value, want)
		} else if value != "-" && !strings.Contains(out, "value: x\n") {
			t.Error("CAPSTAN_WATCH_FILTER has no effect")
		}
		t.Attr("rule", "CT-57")
	}
	w.env = nil

	// Variables without default and value are listed; nothing is rendered.
	path := filepath.Join(w.repository, "infrastructure-capstan", current, "infrastructure-components.yaml")
	text, err := os.ReadFile(path)
	w.must(err)
	w.must(os.WriteFile(path, bytes.ReplaceAll(text, []byte(":=10}"), []byte("}")), 0o600))
	w.refused("value for variables [CAPSTAN_CONCURRENCY] is not set", "generate", "provider", "--infrastructure",
		"capstan:"+current)
	t.Attr("rule", "CT-58")

	namespace := []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: second}\n---\n")
	w.must(os.WriteFile(path, append(namespace, text...), 0o600))
	w.refused("no more than one resource with Kind Namespace", "generate", "provider", "--infrastructure",
		"capstan:"+current)
	t.Attr("rule", "CT-45")
	w.must(os.WriteFile(path, bytes.Replace(text, []byte("kind: Namespace\n"), []byte("kind: Nothing\n"), 1), 0o600))
	w.refused("target namespace can't be defaulted", "generate", "provider", "--infrastructure", "capstan:"+current)
	w.run("generate", "provider", "--infrastructure", "capstan:"+current, "--target-namespace", "other")
	t.Attr("rule", "CT-46")
}

// TestTargetNamespace renders our components for another namespace: nothing names the old one (T-CT-03, RC-25).
func TestTargetNamespace(t *testing.T) {
	w := newWorld(t)
	w.env = []string{"CAPSTAN_EXTENSION_NAMESPACE=other"}
	for provider, label := range map[string]string{
		"--infrastructure": "infrastructure-capstan", "--runtime-extension": "runtime-extension-capstan",
	} {
		out := w.run("generate", "provider", provider, "capstan:"+current, "--target-namespace", "other")
		for line := range strings.Lines(out) {
			if strings.Contains(line, "capstan-system") || strings.Contains(line, "capstan-extension-system") {
				t.Errorf("%s: %s", label, line)
			}
		}
		if strings.Contains(out, "${") {
			t.Errorf("%s has variables left", label)
		}
		for _, o := range documents(t, out) {
			if o.GetNamespace() != "" && o.GetNamespace() != "other" {
				t.Errorf("%s %s is in namespace %s, want other", o.GetKind(), o.GetName(), o.GetNamespace())
			}
			if o.GetKind() == "Namespace" && o.GetName() != "other" {
				t.Errorf("the Namespace is %s, want other", o.GetName())
			}
			t.Attr("rule", "CT-102")
			if labels := o.GetLabels(); labels["cluster.x-k8s.io/provider"] != label ||
				!hasKey(labels, "clusterctl.cluster.x-k8s.io") {
				t.Errorf("%s %s lacks a label of clusterctl: %v", o.GetKind(), o.GetName(), labels)
			}
			t.Attr("rule", "CT-103")
		}
		if label == "runtime-extension-capstan" {
			checkExtensionNamespace(t, documents(t, out), "other")
		}
	}
}

// checkExtensionNamespace checks the namespace in the ExtensionConfig. clusterctl does not rewrite this namespace; a
// variable sets it.
func checkExtensionNamespace(t *testing.T, objects []*unstructured.Unstructured, want string) {
	t.Helper()
	found := false
	for _, o := range objects {
		if o.GetKind() != "ExtensionConfig" {
			continue
		}
		found = true
		service, _, _ := unstructured.NestedString(o.Object, "spec", "clientConfig", "service", "namespace")
		secret := o.GetAnnotations()[runtimev1.InjectCAFromSecretAnnotation]
		if service != want || !strings.HasPrefix(secret, want+"/") {
			t.Errorf("the ExtensionConfig calls namespace %q and reads Secret %q, want both in %s", service, secret, want)
		}
	}
	if !found {
		t.Fatal("the components have no ExtensionConfig")
	}
	t.Attr("rule", "RC-25")
}

func hasKey(labels map[string]string, key string) bool {
	_, ok := labels[key]
	return ok
}

// flavors maps flavors to the variables that each needs.
var flavors = map[string][]string{
	"": nil, "topology": nil, "external": {"CAPSTAN_ENDPOINT_HOST=192.0.2.1"},
	"topology-owned": {"CAPSTAN_ENDPOINT_HOST=192.0.2.1"},
	"vip":            {"CAPSTAN_ENDPOINT_HOST=192.0.2.1", "CAPSTAN_VIP_IMAGE=kube-vip:v1"},
	"ha":             {"CAPSTAN_ENDPOINT_HOST=192.0.2.1", "CAPSTAN_VIP_IMAGE=kube-vip:v1"},
}

// generate renders a flavor.
func (w *world) generate(flavor string, more ...string) string {
	w.Helper()
	w.env = flavors[flavor]
	return w.run(
		append([]string{"generate", "cluster", "c1", "--infrastructure", "capstan:" + current, "--flavor", flavor,
			"--target-namespace", "blue",
			"--kubernetes-version", "v1.36.3", "--control-plane-machine-count", "3", "--worker-machine-count", "2"}, more...)...)
}

// testFlavors renders each flavor with the common variables and applies it, as a dry run, to a real API server with
// Cluster API's definitions and ours (T-CT-06, T-CT-07). Package release tests the published files themselves; here,
// clusterctl has already set the namespace.
func (w *world) testFlavors(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(w.repository, "infrastructure-capstan", current, "cluster-template*.yaml"))
	if w.must(err); len(names) != len(flavors) {
		t.Errorf("%d flavors are tested, the release has %d", len(flavors), len(names))
	}
	t.Attr("rule", "CT-66")
	shared := map[string]string{}
	for flavor, variables := range flavors {
		out := w.generate(flavor)
		all := documents(t, out)
		if strings.Contains(out, "${") {
			t.Errorf("flavor %q has variables left", flavor)
		}
		if strings.Count(out, "c1") == 0 || strings.Contains(out, "CLUSTER_NAME") {
			t.Errorf("flavor %q does not have the name of the cluster", flavor)
		}
		t.Attr("rule", "CT-74")
		w.generated(flavor, all, shared)
		if len(variables) > 0 {
			w.env = nil
			w.refused("CAPSTAN_ENDPOINT_HOST", "generate", "cluster", "c1", "--infrastructure", "capstan:"+current, "--flavor",
				flavor, "--kubernetes-version", "v1.36.3")
		}
	}
	w.env = nil
	w.refused("cluster-template-none.yaml", "generate", "cluster", "c1", "--infrastructure", "capstan:"+current,
		"--flavor", "none", "--kubernetes-version", "v1.36.3")

	// A class that already exists is not in the output.
	for _, o := range documents(t, w.generate("topology")) {
		if o.GetKind() != "Cluster" {
			w.must(w.api.Create(t.Context(), o))
		}
	}
	if all := documents(t, w.generate("topology")); len(all) != 1 || all[0].GetKind() != "Cluster" {
		t.Errorf("with its class installed, the flavor has %d objects, want only the Cluster", len(all))
	}
	t.Attr("rule", "CT-86")
}

// generated checks the objects of a flavor.
func (w *world) generated(flavor string, all []*unstructured.Unstructured, shared map[string]string) {
	w.Helper()
	has := map[string]bool{}
	for _, o := range all {
		has[o.GetKind()+"/"+o.GetName()] = true
	}
	class, counts := "", map[int64]int{}
	for _, o := range all {
		if o.GetNamespace() != "blue" || o.GetKind() == "Namespace" {
			w.Errorf("flavor %q has %s %s in namespace %q, want namespace blue, and no Namespace", flavor, o.GetKind(),
				o.GetName(), o.GetNamespace())
		}
		w.Attr("rule", "CT-104")
		w.closed(flavor, o.Object, has)
		switch o.GetKind() {
		case "Cluster":
			if o.GetName() != "c1" {
				w.Errorf("flavor %q: the cluster is %s, want c1", flavor, o.GetName())
			}
			class, _, _ = unstructured.NestedString(o.Object, "spec", "topology", "classRef", "name")
			replicas, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "topology", "controlPlane", "replicas")
			count(counts, replicas)
			workers, _, _ := unstructured.NestedSlice(o.Object, "spec", "topology", "workers", "machineDeployments")
			for _, worker := range workers {
				m, _ := worker.(map[string]any)
				count(counts, m["replicas"])
			}
		case "KubeadmControlPlane", "MachineDeployment":
			replicas, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "replicas")
			count(counts, replicas)
		}
		if class != "" && o.GetKind() != "Cluster" || o.GetKind() == "ClusterClass" {
			key := o.GetKind() + "/" + o.GetName()
			if other, ok := shared[key]; ok && other != flavor {
				w.Errorf("%s belongs to the classes of the flavors %s and %s", key, other, flavor)
			}
			shared[key] = flavor
		}
		if err := w.api.Create(w.Context(), o.DeepCopy(), dryRun); err != nil {
			w.Errorf("flavor %q: %v", flavor, err)
		}
	}
	if counts[3] != 1 || counts[2] == 0 {
		w.Errorf("flavor %q has replicas %v, want 3 control plane machines and 2 workers", flavor, counts)
	}
	w.Attr("rule", "CT-72")
	if isTopology := strings.HasPrefix(flavor, "topology"); isTopology != (class != "") ||
		isTopology && !has["ClusterClass/"+class] {
		w.Errorf("flavor %q uses class %q, and contains the objects %v", flavor, class, has)
	}
	w.Attr("rule", "CT-86")
}

func count(counts map[int64]int, replicas any) {
	switch n := replicas.(type) {
	case int64:
		counts[n]++
	case float64:
		counts[int64(n)]++
	}
}

// closed follows references to kinds of Cluster API: the same output must contain their targets, and no reference may
// name a namespace.
func (w *world) closed(flavor string, value any, has map[string]bool) {
	w.Helper()
	switch v := value.(type) {
	case map[string]any:
		kind, _ := v["kind"].(string)
		name, _ := v["name"].(string)
		if kind != "" && name != "" && !has[kind+"/"+name] {
			w.Errorf("flavor %q names %s %s, which it does not have", flavor, kind, name)
		}
		if _, ok := v["namespace"]; ok && kind != "" && name != "" {
			w.Errorf("flavor %q: the reference to %s %s names a namespace", flavor, kind, name)
		}
		for _, key := range slices.Sorted(mapKeys(v)) {
			w.closed(flavor, v[key], has)
		}
	case []any:
		for _, item := range v {
			w.closed(flavor, item, has)
		}
	}
}
