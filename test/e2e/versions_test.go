package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/templates"
	"github.com/capstan-dev/capstan/test/long"
)

// twoVersions returns the Kubernetes version that a test upgrades from, and the one that it upgrades to. It fails the
// test if the version to upgrade from has no bundle.
func twoVersions(t *testing.T) (from, to string) {
	t.Helper()
	from, to = versionIn(t, "PREVIOUS_VERSION"), versionIn(t, "DEFAULT_VERSION")
	if _, err := os.Stat(filepath.Join("..", "..", "bin", "bundles", from, "capstan-kube")); err != nil {
		t.Fatalf("there is no bundle for %s: run make kube-previous", from)
	}
	return from, to
}

// versionIn reads a Kubernetes version from a file in kube/.
func versionIn(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "kube", file))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// takesLongBut skips a case of a long test unless long tests are enabled. The cases named always run in any event.
func takesLongBut(t *testing.T, name string, always ...string) {
	t.Helper()
	if !slices.Contains(always, name) {
		long.Need(t)
	}
}

// hookedClass returns a copy of the local ClusterClass with other names. To distinguish its generations, it adds a text
// to the bootstrap configuration of each role.
func hookedClass(controlPlane, workers string) string {
	return strings.NewReplacer(
		"capstan-local-control-plane",
		"hooked-control-plane-"+controlPlane,
		"capstan-local-worker",
		"hooked-worker-"+workers,
		"capstan-local",
		"hooked",
		"      kubeadmConfigSpec:\n",
		"      kubeadmConfigSpec:\n        "+motd(controlPlane)+"\n",
		"    spec:\n      joinConfiguration:\n",
		"    spec:\n      "+motd(workers)+"\n      joinConfiguration:\n",
	).Replace(string(templates.Local))
}

// versionsOf returns the Kubernetes version and the class generation of each role, as "control plane v1.36.3 b".
func versionsOf(t *testing.T, cluster string) []string {
	t.Helper()
	all := parts(t, cluster)
	var found []string
	for _, p := range all {
		switch p.Kind {
		case "KubeadmControlPlane":
			found = append(found, p.generation())
		case "MachineDeployment":
			content := must(t, "kubectl", "get", "kubeadmconfigtemplate", p.Spec.Template.Spec.Bootstrap.ConfigRef.Name,
				"-o", "jsonpath={.spec.template.spec.files[0].content}")
			found = append(found, p.role()+" "+p.version()+" "+content)
		}
	}
	slices.Sort(found)
	return found
}
