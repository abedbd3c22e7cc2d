package machine

import (
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/step"
)

func TestDeregister(t *testing.T) { // IM-58
	controlPlane := func(h *infrav1.CapstanHost) {
		h.Spec.Claim.ControlPlane = true
		reported(infrav1.BootstrapSucceeded)(h)
	}
	edits := func(all ...change) []change {
		return append([]change{deleted, claimed("host-01", controlPlane)}, all...)
	}
	const infra, hosts, machine = "get CapstanCluster", "list CapstanHostList", "get CapstanMachine"
	for name, c := range map[string]struct {
		edits      []change
		noBalancer bool
		calls      []string
	}{
		"a control plane machine": {edits: edits(), calls: []string{infra, hosts, machine, "set backends []"}},
		"a worker":                {edits: []change{deleted, claimed("host-01")}},
		"a machine without host":  {edits: []change{deleted}},
		"the Cluster is gone":     {edits: edits(func(all map[string]client.Object) { delete(all, "cluster") })},
		"the CapstanCluster is gone": {
			edits: edits(func(all map[string]client.Object) { delete(all, "infra") }), calls: []string{infra},
		},
		"the infrastructure is of another provider": {
			edits: edits(on("cluster", func(c *clusterv1.Cluster) { c.Spec.InfrastructureRef.Kind = "OtherCluster" })),
		},
		"the user provides the endpoint": {
			edits: edits(on("infra", func(c *infrav1.CapstanCluster) {
				c.Spec.LoadBalancer.Type = infrav1.LoadBalancerExternal
			})),
			calls: []string{infra},
		},
		"the provider has no balancers": {edits: edits(), noBalancer: true},
	} {
		t.Run(name, func(t *testing.T) {
			trial{
				objects: worldOf(c.edits...), run: (*Reconciler).deregister, calls: c.calls,
				prepare: func(f *fixture) {
					if c.noBalancer {
						f.Backends.Balancer = nil
					}
				},
				check: func(t *testing.T, _ *fixture, _ *scope, answer step.Answer) {
					if answer.Stopped() {
						t.Error("the deletion waits for the balancer")
					}
				},
			}.do(t)
		})
	}
}
