package e2e

import (
	"slices"
	"strings"
	"testing"
)

// TestUpgrade takes a cluster from the minor release before to the one of now, and back it does not go.
func TestUpgrade(t *testing.T) {
	takesLong(t) // TestHooksOfAnUpgrade upgrades a cluster in each run
	from, to := twoVersions(t)
	const name = "upgrade"
	must(t, "cluster", "create", name, "--workers", "1", "--kubernetes-version", from)
	versions := func() (all []string) {
		for _, n := range decode[objectList](t, "kubectl", "--cluster", name, "get", "nodes").Items {
			all = append(all, n.Status.NodeInfo.KubeletVersion)
		}
		return all
	}
	if got := versions(); !slices.Equal(got, []string{from, from}) {
		t.Errorf("kubelets are %v, want two of %s", got, from)
	}
	must(t, "cluster", "upgrade", name, "--kubernetes-version", to)
	readyNodes(t, name)
	if got := versions(); !slices.Equal(got, []string{to, to}) {
		t.Errorf("kubelets are %v, want two of %s", got, to)
	}
	timeline := must(t, "hook", "timeline", name)
	for _, hook := range []string{"BeforeClusterUpgrade", "BeforeControlPlaneUpgrade", "AfterControlPlaneUpgrade",
		"BeforeWorkersUpgrade", "AfterWorkersUpgrade", "AfterClusterUpgrade"} {
		if !strings.Contains(timeline, hook) {
			t.Errorf("timeline has no %s:\n%s", hook, timeline)
		}
	}
	mustFail(t, "does not go back", "cluster", "upgrade", name, "--kubernetes-version", from)
	must(t, "cluster", "delete", name)
	vanishes(t, name)
}
