//go:build linux

package clusterctl

import (
	"os"
	"path/filepath"
	"strings"
)

// testCommands checks that clusterctl's smaller commands do the same in capstan as in clusterctl, on the plane and on
// another management cluster.
func (e *embedded) testCommands() {
	has := func(out string, words ...string) {
		e.Helper()
		for _, word := range words {
			if !strings.Contains(out, word) {
				e.Errorf("there is no %q in\n%s", word, out)
			}
		}
	}
	e.works("cluster", "create", "told", "--workers", "0", "--wait=false")
	var out string
	e.until("the cluster has its parts", func() bool {
		out = e.works("clusterctl", "describe", "cluster", "told")
		return strings.Contains(out, "└─Machine/told")
	})
	has(out, "UP TO DATE", "Cluster/told", "├─ClusterInfrastructure - CapstanCluster/told",
		"└─ControlPlane - KubeadmControlPlane/told", "Available: ")
	has(e.works("clusterctl", "describe", "cluster", "told", "--show-conditions", "Cluster"), "│  TopologyReconciled")
	e.fails("has spaces", "describe", "cluster", "told", "--show-conditions", "Cluster, Machine")
	e.fails("nosuch", "describe", "cluster", "nosuch")
	e.fails("no such file", "describe", "cluster", "told", "--kubeconfig", filepath.Join(e.home, "none"))
	e.fails("no such file", "move", "--to-directory", filepath.Join(e.home, "none"))
	saved := e.TempDir()
	e.until("the cluster can be saved", func() bool { // once its parts exist
		_, _, err := e.command(e.Context(), "clusterctl", "move", "--to-directory", saved)
		return err == nil
	})
	if files, err := filepath.Glob(filepath.Join(saved, "CapstanHost_*_host-01.yaml")); err != nil || len(files) != 1 {
		e.Errorf("the claimed host is not among the saved objects: %v %v", files, err)
	}
	e.works("cluster", "delete", "told")

	has(e.works("clusterctl", "config", "repositories"), "NAME", "CoreProvider", "kubeadm")
	e.fails("want one", "generate", "provider", "--infrastructure", "capstan", "--bootstrap", "kubeadm")
	e.fails("repository of a release", "generate", "provider", "--infrastructure", "capstan")
	e.fails("neither a number of seconds", "init", "--wait-provider-timeout", "soon", "--infrastructure", "capstan")
	e.works("clusterctl", "init", "--wait-provider-timeout", "300", "--infrastructure", "capstan")

	// Without a plane, the repository in the configuration counts.
	e.env = []string{"CAPSTAN_HOME=" + filepath.Join(e.home, "nothing")}
	defer func() { e.env = nil }()
	config := []string{"--config", e.config}
	of := func(args ...string) string {
		return e.works(append(append([]string{"clusterctl"}, args...), config...)...)
	}
	path := filepath.Join(e.home, "components.yaml")
	of("generate", "provider", "--infrastructure", "capstan", "-n", "elsewhere", "--write-to", path)
	components, err := os.ReadFile(path)
	e.must(err)
	has(string(components), "namespace: elsewhere", "kind: Deployment")
	has(of("generate", "provider", "--infrastructure", "capstan:"+newer, "--describe"), newer, "Image",
		"CAPSTAN_WATCH_FILTER")
	has(of("generate", "cluster", "c1", "--infrastructure", "capstan:"+newer, "--kubernetes-version", "v1.36.3"),
		"KubeadmControlPlane")
	e.fails("specify a version", append([]string{"generate", "cluster", "c1", "--kubernetes-version", "v1.36.3"},
		config...)...)
	template := filepath.Join(e.home, "template.yaml")
	e.must(os.WriteFile(template, []byte("a: ${ONE:=first}\n"), 0o600))
	has(e.works("clusterctl", "generate", "yaml", "--from", template), "a: first")
	has(e.works("clusterctl", "generate", "yaml", "--from", template, "--list-variables"), "ONE")
	old := filepath.Join(e.home, "old.yaml")
	e.must(
		os.WriteFile(old,
			[]byte("apiVersion: cluster.x-k8s.io/v1beta1\nkind: Cluster\nmetadata: {name: c1}\nspec: {paused: true}\n"), 0o600))
	has(e.works("clusterctl", "convert", old), "cluster.x-k8s.io/v1beta2")
	e.fails("v9", "convert", "--to-version", "v9", old)
}
