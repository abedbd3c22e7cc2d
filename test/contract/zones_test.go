//go:build linux

package contract

import (
	"slices"
	"testing"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// offers returns the zones that a cluster offers to its control plane.
func (w *world) offers(cluster string) []string {
	w.Helper()
	c := read(w, cluster, &infrav1.CapstanCluster{})
	var zones []string
	for _, d := range c.Status.FailureDomains {
		if ptr.Deref(d.ControlPlane, false) {
			zones = append(zones, d.Name)
		}
	}
	return zones
}

// TestClustersMadeAtOnceHaveZonesOfTheirOwn creates as many clusters at once as there are hosts. The controller of a
// control plane takes any offered zone, and the provider does not know which until the machine exists. So each cluster
// is offered one zone, and no zone is offered more often than it has hosts. Once a cluster has its first machine, it is
// offered all zones that have more room than is promised to other clusters.
func TestClustersMadeAtOnceHaveZonesOfTheirOwn(t *testing.T) {
	eachVersion(t, func(t *testing.T, f form) {
		w := newWorld(t, f, 3)
		names := []string{"one", "two", "three"}
		for _, name := range names {
			w.newCluster(name)
		}
		var offered []string
		w.until("each cluster is offered a zone", func() bool {
			offered = nil
			for _, name := range names {
				offered = append(offered, w.offers(name)...)
			}
			return len(offered) == len(names)
		})
		slices.Sort(offered)
		if want := []string{"zone-a", "zone-b", "zone-c"}; !slices.Equal(offered, want) {
			t.Errorf("the clusters are offered %v, want each zone once: %v", offered, want)
		}
		zone := w.offers("one")[0]
		w.setProvisioned("one", true)
		w.newMachine("cp", machineOptions{cluster: "one", controlPlane: true, zone: zone})
		w.until("the zone is full", func() bool { return len(w.offers("one")) == 0 })
		w.delete(read(w, "two", &clusterv1.Cluster{}))
		w.must(client.IgnoreNotFound(shared.admin.Delete(t.Context(), read(w, "two", &infrav1.CapstanCluster{}))))
		w.until("the zone that was promised to the deleted cluster is offered", func() bool {
			return len(w.offers("one")) == 1 && w.offers("one")[0] != zone
		})
	})
}
