package topology

import (
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capstan-dev/capstan/internal/hint"
)

// n returns a pointer to a number of machines.
func n(i int32) *int32 { return &i }

func TestResize(t *testing.T) {
	two := func(c *clusterv1.Cluster) {
		workers := &c.Spec.Topology.Workers
		gpu := clusterv1.MachineDeploymentTopology{Class: "gpu", Name: "md-1"}
		workers.MachineDeployments = append(workers.MachineDeployments, gpu)
	}
	for name, c := range map[string]struct {
		change                func(*clusterv1.Cluster)
		size                  Size
		controlPlane, workers int32
		refusal               string
	}{
		"more workers":                         {nil, Size{Workers: n(5)}, 1, 5, ""},
		"no workers":                           {nil, Size{Workers: n(0)}, 1, 0, ""},
		"a control plane of three":             {nil, Size{ControlPlane: n(3)}, 3, 2, ""},
		"both":                                 {nil, Size{ControlPlane: n(3), Workers: n(1)}, 3, 1, ""},
		"two sorts of workers stay as many":    {two, Size{ControlPlane: n(3)}, 3, 3, ""},
		"two sorts of workers, which of them?": {two, Size{Workers: n(1)}, 0, 0, "has 2 machine deployments"},
		"an even control plane":                {nil, Size{ControlPlane: n(2)}, 0, 0, "odd number"},
		"fewer than no workers":                {nil, Size{Workers: n(-1)}, 0, 0, "is negative"},
		"nothing":                              {nil, Size{}, 0, 0, "nothing to change"},
		"a cluster without a topology": {
			func(c *clusterv1.Cluster) { c.Spec.Topology = clusterv1.Topology{} }, Size{Workers: n(1)},
			0, 0, "has no topology",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := demo.Cluster()
			if c.change != nil {
				c.change(cluster)
			}
			got, err := resize(cluster, c.size)
			if c.refusal != "" {
				if err == nil || !strings.Contains(err.Error(), c.refusal) || hint.Of(err) == "" {
					t.Errorf("got %v with hint %q, want %q with a hint", err, hint.Of(err), c.refusal)
				}
				return
			}
			want := demo
			want.ControlPlane, want.Workers = c.controlPlane, c.workers
			if err != nil || got != want {
				t.Errorf("got %+v, %v, want %+v", got, err, want)
			}
			if all := Machines(cluster); all != int(c.controlPlane+c.workers) {
				t.Errorf("the topology asks for %d machines", all)
			}
		})
	}
}
