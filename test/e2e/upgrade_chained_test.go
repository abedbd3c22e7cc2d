package e2e

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/templates"
)

// chainedClass returns a copy of the local ClusterClass in which names contain "chained" instead of "capstan-local".
// For Clusters of this class, the plane's own extension plans the upgrades.
func chainedClass() string {
	class := strings.ReplaceAll(string(templates.Local), "capstan-local", "chained")
	return strings.Replace(class, "\nspec:\n",
		"\nspec:\n  upgrade:\n    external:\n      generateUpgradePlanExtension: upgrade-plan.capstan\n", 1)
}

// TestChainedUpgrade takes a real cluster over two minor releases with one change of its version. The plane's own
// extension plans the upgrade from the existing bundles. The control plane goes through each release, the worker is
// replaced once, and the extension is called at each step.
func TestChainedUpgrade(t *testing.T) {
	if os.Getenv("CAPSTAN_TEST_CHAINED") == "" {
		t.Skip("needs a third bundle: make test-chained")
	}
	from, by, to := versionIn(t, "OLDEST_VERSION"), versionIn(t, "PREVIOUS_VERSION"), versionIn(t, "DEFAULT_VERSION")
	for _, version := range []string{from, by, to} {
		if _, err := os.Stat(filepath.Join("..", "..", "bin", "bundles", version, "capstan-kube")); err != nil {
			t.Fatalf("there is no bundle for %s: run make test-chained: %v", version, err)
		}
	}
	const name = "chained"
	apply(t, chainedClass())
	must(t, "cluster", "create", name, "--class", "chained", "--workers", "1", "--kubernetes-version", from)
	kubelets := func() (all []string) {
		for _, n := range decode[objectList](t, "kubectl", "--cluster", name, "get", "nodes").Items {
			all = append(all, n.Status.NodeInfo.KubeletVersion)
		}
		return all
	}
	if got := kubelets(); !slices.Equal(got, []string{from, from}) {
		t.Errorf("kubelets are %v, want two of %s", got, from)
	}
	machines := machinesOf(t, name)

	must(t, "cluster", "upgrade", name, "--kubernetes-version", to)
	readyNodes(t, name)
	if got := kubelets(); !slices.Equal(got, []string{to, to}) {
		t.Errorf("kubelets are %v, want two of %s", got, to)
	}
	want := map[string]int{
		"control plane " + from: 1, "control plane " + by: 1, "control plane " + to: 1, "md-0 " + from: 1, "md-0 " + to: 1,
	}
	if got := machines(); !maps.Equal(got, want) {
		t.Errorf("the Machines so far were %v, want %v", got, want)
	}
	wanted := []string{
		"BeforeClusterCreate", "AfterControlPlaneInitialized",
		"BeforeClusterUpgrade", "BeforeControlPlaneUpgrade", "AfterControlPlaneUpgrade",
		"BeforeControlPlaneUpgrade", "AfterControlPlaneUpgrade",
		"BeforeWorkersUpgrade", "AfterWorkersUpgrade", "AfterClusterUpgrade",
	}
	if got := moments(t, name, "capstan"); !slices.Equal(got, wanted) {
		t.Errorf("the extension was called for the hooks %v, want %v", got, wanted)
	}
	if timeline := must(t, "hook", "timeline", name); !strings.Contains(timeline, "GenerateUpgradePlan") {
		t.Errorf("the timeline has no call of GenerateUpgradePlan:\n%s", timeline)
	}
	mustFail(t, "does not go back", "cluster", "upgrade", name, "--kubernetes-version", by)
	must(t, "cluster", "delete", name)
	vanishes(t, name)
	must(t, "kubectl", "delete", "clusterclass", "chained")
}
