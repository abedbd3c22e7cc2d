package machine

import (
	"errors"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestMachinesOfCluster(t *testing.T) {
	f := newFixture(t, world()...)
	demo := get(f, "demo", &clusterv1.Cluster{})
	if got := f.machinesOfCluster(t.Context(), demo); len(got) != 1 || got[0].Name != "w1" {
		t.Errorf("got %v", got)
	}
	other := &clusterv1.Cluster{}
	other.Namespace, other.Name = ns, "other"
	if got := f.machinesOfCluster(t.Context(), other); len(got) != 0 {
		t.Errorf("another cluster has the machines %v", got)
	}
	f.fault = named("list CapstanMachineList", errors.New("no cache"))
	if got := f.machinesOfCluster(t.Context(), demo); len(got) != 0 {
		t.Errorf("without an answer, got %v", got)
	}
}
