package machine

import (
	"errors"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

func TestMachinesOfHost(t *testing.T) {
	had := machineIs(func(m *infrav1.CapstanMachine) { m.Status.Host = "host-02" })
	notReady := on("host-01", func(h *infrav1.CapstanHost) { h.Status.Conditions = nil })
	for name, c := range map[string]struct {
		edits []change
		want  bool
	}{
		"a claimed host: its machine":           {[]change{claimed("host-01")}, true},
		"a free host: who waits for one":        {nil, true},
		"a free host: not who had one":          {[]change{had}, false},
		"a free host: not who is being deleted": {[]change{deleted}, false},
		"a host that nobody could take":         {[]change{notReady}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, world(c.edits...)...)
			got := f.machinesOfHost(t.Context(), f.host("host-01"))
			if (len(got) == 1 && got[0].Name == "w1") != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
	if got := newFixture(t).machinesOfHost(t.Context(), &clusterv1.Cluster{}); got != nil {
		t.Errorf("for another kind: %v", got)
	}
}

func TestMachinesOfCluster(t *testing.T) {
	f := newFixture(t, world()...)
	demo := get(f, "demo", &clusterv1.Cluster{})
	if got := f.machinesOfCluster(t.Context(), demo); len(got) != 1 || got[0].Name != "w1" {
		t.Errorf("got %v", got)
	}
	other := &clusterv1.Cluster{}
	other.Namespace, other.Name = ns, "other"
	if got := f.machinesOfCluster(t.Context(), other); len(got) != 0 {
		t.Errorf("of another cluster: %v", got)
	}
	f.fault = named("list CapstanMachineList", errors.New("no cache"))
	if got := f.machinesOfCluster(t.Context(), demo); len(got) != 0 {
		t.Errorf("without an answer: %v", got)
	}
}
