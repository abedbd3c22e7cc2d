package capacity

import (
	"context"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/extension/part"
	"github.com/capstan-dev/capstan/extension/setting"
	"github.com/capstan-dev/capstan/runtime/hook"
)

// Name is the name of the part.
const Name = "capacity"

// New returns the part that holds new Clusters, and upgrades whose surge needs hosts, while the inventory has too few
// hosts for them. The reader reads CapstanHosts, Clusters, ClusterClasses, Machines, MachineDeployments and control
// planes. It must not be a cache, which may lag behind the latest claims and admissions.
func New(reader client.Reader) part.Part {
	g := newGate(reader)
	return part.Part{Name: Name, Handlers: []part.Handler{
		part.Handle(hook.BeforeClusterCreate, "capacity", g.beforeClusterCreate),
		part.Handle(hook.BeforeControlPlaneUpgrade, "capacity-control-plane", g.beforeControlPlaneUpgrade),
		part.Handle(hook.BeforeWorkersUpgrade, "capacity-workers", g.beforeWorkersUpgrade),
	}}
}

func (g *gate) beforeClusterCreate(
	ctx context.Context, _ setting.Values, request *runtimehooksv1.BeforeClusterCreateRequest,
) (part.Answer, error) {
	return g.create(ctx, &request.Cluster)
}

func (g *gate) beforeControlPlaneUpgrade(
	ctx context.Context, _ setting.Values, request *runtimehooksv1.BeforeControlPlaneUpgradeRequest,
) (part.Answer, error) {
	return g.upgradeControlPlane(ctx, &request.Cluster, request.ToKubernetesVersion)
}

func (g *gate) beforeWorkersUpgrade(
	ctx context.Context, _ setting.Values, request *runtimehooksv1.BeforeWorkersUpgradeRequest,
) (part.Answer, error) {
	return g.upgradeWorkers(ctx, &request.Cluster, request.ToKubernetesVersion)
}
