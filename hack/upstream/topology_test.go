package main

import (
	"encoding/json"
	"testing"
)

// want compares the value at a path with JSON text.
func want(t *testing.T, d document, text string, path ...string) {
	t.Helper()
	data, err := json.Marshal(d.get(path...))
	if err != nil {
		t.Fatal(err)
	}
	if string(data) != text {
		t.Errorf("the value at %v is\n%s\nwant\n%s", path, data, text)
	}
}

func TestTaintsAreTheirs(t *testing.T) {
	cluster, err := find(made(t)["cluster-template-topology-taints.yaml"], "Cluster")
	if err != nil {
		t.Fatal(err)
	}
	workers, err := workersOf(cluster)
	if err != nil {
		t.Fatal(err)
	}
	want(t, cluster, `[{"key":"early"}]`, "spec", "topology", "controlPlane", "taints")
	want(t, workers, `[{"key":"early"}]`, "taints")
	want(t, cluster, `null`, "metadata", "namespace")
}

func TestMachinesAreUpdatedInPlace(t *testing.T) {
	all := made(t)
	cluster, err := find(all["cluster-template-topology-in-place.yaml"], "Cluster")
	if err != nil {
		t.Fatal(err)
	}
	workers, err := workersOf(cluster)
	if err != nil {
		t.Fatal(err)
	}
	want(t, cluster, `"capstan-local-in-place"`, "spec", "topology", "classRef", "name")
	want(t, workers, `{"maxSurge":"${MD_MAX_SURGE}","maxUnavailable":"${MD_MAX_UNAVAILABLE}"}`,
		"rollout", "strategy", "rollingUpdate")
	class := all["clusterclass-capstan-local-in-place.yaml"]
	controlPlane, err := find(class, "KubeadmControlPlaneTemplate")
	if err != nil {
		t.Fatal(err)
	}
	want(t, controlPlane, `"${KUBEADM_CONTROL_PLANE_MAX_SURGE}"`,
		"spec", "template", "spec", "rollout", "strategy", "rollingUpdate", "maxSurge")
	c, err := find(class, "ClusterClass")
	if err != nil {
		t.Fatal(err)
	}
	patches, _ := c.get("spec", "patches").([]any)
	if len(patches) != 1 {
		t.Fatalf("the class has %d patches, want one", len(patches))
	}
	definitions, _ := document(patches[0].(map[string]any)).get("definitions").([]any)
	paths := map[string]bool{}
	for _, item := range definitions {
		for _, change := range document(item.(map[string]any)).get("jsonPatches").([]any) {
			paths[document(change.(map[string]any)).text("path")] = true
		}
	}
	for _, path := range []string{"/spec/template/spec/kubeadmConfigSpec/files", "/spec/template/spec/files"} {
		if !paths[path] {
			t.Errorf("no patch changes %s; the patched paths are %v", path, paths)
		}
	}
}
