package machine

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// Setup registers the reconciler with the manager. Every change that can let a machine proceed starts a pass, so
// nothing is polled (contract rule IM-40). The pool of hosts wakes the machine that has a changed host, and machines
// that wait for a host.
func (r *Reconciler) Setup(mgr ctrl.Manager, options controller.Options) error {
	log := mgr.GetLogger().WithValues("controller", "capstanmachine")
	return ctrl.NewControllerManagedBy(mgr).
		Named("capstanmachine").
		WithOptions(options).
		For(&infrav1.CapstanMachine{}).
		Watches(&clusterv1.Machine{},
			handler.EnqueueRequestsFromMapFunc(util.MachineToInfrastructureMapFunc(
				infrav1.GroupVersion.WithKind("CapstanMachine"))),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&clusterv1.Cluster{},
			handler.EnqueueRequestsFromMapFunc(r.machinesOfCluster),
			builder.WithPredicates(predicates.ClusterPausedTransitionsOrInfrastructureProvisioned(mgr.GetScheme(), log))).
		Watches(&infrav1.CapstanHost{}, r.Hosts.Handler()).
		WatchesRawSource(source.Func(r.Hosts.Wake)).
		Complete(r)
}

func (r *Reconciler) machinesOfCluster(ctx context.Context, cluster client.Object) []reconcile.Request {
	list := &infrav1.CapstanMachineList{}
	err := r.Client.List(ctx, list,
		client.InNamespace(cluster.GetNamespace()),
		client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.GetName()})
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing CapstanMachines that an event is about")
		return nil
	}
	var found []reconcile.Request
	for i := range list.Items {
		found = append(found, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return found
}
