package capacity

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/extension/part/parttest"
)

// The first host is in zone-a, the others are in zone-b. The Cluster named "first" has a control plane of one machine.
func TestAControlPlaneIsPromisedAHostOfItsZone(t *testing.T) {
	const waits = "wait 5s: cluster needs 1 host in zone-a, 0 of 1 there are free (1 promised to other clusters): " +
		"add hosts there, or change the failure domains"
	for name, c := range map[string]struct {
		change func(*parttest.World)
		want   string
	}{
		"the control plane waits in zone-a": {nil, waits},
		"the control plane waits in zone-b": {func(w *parttest.World) {
			w.Machines[0].Spec.FailureDomain = "zone-b"
		}, "passes: cluster needs 1 host, 2 of 3 are free (1 promised to other clusters)"},
		"the control plane has no zone yet": {func(w *parttest.World) {
			w.Machines[0].Spec.FailureDomain = ""
		}, "passes: cluster needs 1 host, 2 of 3 are free (1 promised to other clusters)"},
		"the control plane has a host in zone-b": {func(w *parttest.World) {
			w.Machines[0].Spec.FailureDomain = "zone-b"
			w.Hosts[1].Spec.Claim = &infrav1.HostClaim{Cluster: "first", Machine: "first-cp"}
		}, "passes: cluster needs 1 host, 2 of 3 are free (1 claimed)"},
		"the cluster's worker has a host in zone-b": {func(w *parttest.World) {
			w.Clusters[0] = begun("first", 1, 1)
			w.Hosts[1].Spec.Claim = &infrav1.HostClaim{Cluster: "first", Machine: "first-worker"}
		}, waits},
		"a worker is not bound": {func(w *parttest.World) {
			w.Machines[0].Labels = nil
		}, "passes: cluster needs 1 host, 2 of 3 are free (1 promised to other clusters)"},
		"the control plane is being deleted": {func(w *parttest.World) {
			now := metav1.Now()
			w.Machines[0].DeletionTimestamp = &now
		}, "passes: cluster needs 1 host, 2 of 3 are free (1 promised to other clusters)"},
		"the control plane has another version": {func(w *parttest.World) {
			w.Machines[0].Spec.Version = "v1.35.4"
		}, "passes: cluster needs 1 host, 2 of 3 are free (1 promised to other clusters)"},
	} {
		t.Run(name, func(t *testing.T) {
			w, mine := parttest.NewWorld(3), parttest.NewCluster("mine", 0, 1)
			w.Hosts[1].Spec.Zone, w.Hosts[2].Spec.Zone = "zone-b", "zone-b"
			w.Clusters = []clusterv1.Cluster{begun("first", 1, 0), mine}
			mine.Spec.Topology.Workers.MachineDeployments[0].FailureDomain = "zone-a"
			w.Machines = []clusterv1.Machine{{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "default", Name: "first-cp", Labels: map[string]string{clusterv1.MachineControlPlaneLabel: ""},
				},
				Spec: clusterv1.MachineSpec{
					ClusterName: "first", Version: mine.Spec.Topology.Version, FailureDomain: "zone-a",
					InfrastructureRef: clusterv1.ContractVersionedObjectReference{
						APIGroup: infrav1.GroupVersion.Group, Kind: "CapstanMachine", Name: "first-cp",
					},
				},
			}}
			if c.change != nil {
				c.change(w)
			}
			if got := ask(t, newGate(w), mine); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
}

// begun returns a Cluster that was let through.
func begun(name string, controlPlane, workers int32) clusterv1.Cluster {
	cluster := parttest.NewCluster(name, controlPlane, workers)
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{Kind: "K", Name: "n", APIGroup: "g"}
	return cluster
}

// If a control plane machine of the same cluster waits in the zone of a surge, the host there is for that machine, not
// for the surge.
func TestASurgeLeavesTheZoneOfABoundControlPlane(t *testing.T) {
	own := Cluster{
		Name: "mine", Admitted: true, Needs: []Need{{Zone: "zone-a", Version: "v1.36.3", Hosts: 1}},
		Besides: anywhere(1),
	}
	all := join(freeIn("zone-a", 1), freeIn("zone-b", 1))
	if got := Decide(all, nil, own); !got.Fits {
		t.Errorf("with a machine for any zone: %s", got.Message)
	}
	own.Bound = []Need{{Zone: "zone-a", Version: "v1.36.3", Hosts: 1}}
	if got := Decide(all, nil, own); got.Fits {
		t.Errorf("with a machine for zone-a: %s", got.Message)
	}
}
