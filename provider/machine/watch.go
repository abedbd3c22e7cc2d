package machine

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
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

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/placement"
)

// Setup registers the reconciler with the manager. Every change that can bring a machine further starts a pass, so that
// nothing has to be polled (IM-40).
func (r *Reconciler) Setup(mgr ctrl.Manager, options controller.Options) error {
	log := mgr.GetLogger().WithValues("controller", "capstanmachine")
	return ctrl.NewControllerManagedBy(mgr).
		Named("capstanmachine").
		WithOptions(options).
		For(&infrav1.CapstanMachine{}).
		Watches(&clusterv1.Machine{},
			handler.EnqueueRequestsFromMapFunc(util.MachineToInfrastructureMapFunc(infrav1.GroupVersion.WithKind("CapstanMachine"))),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&clusterv1.Cluster{},
			handler.EnqueueRequestsFromMapFunc(r.machinesOfCluster),
			builder.WithPredicates(predicates.ClusterPausedTransitionsOrInfrastructureProvisioned(mgr.GetScheme(), log))).
		Watches(&infrav1.CapstanHost{}, handler.EnqueueRequestsFromMapFunc(r.machinesOfHost)).
		Complete(r)
}

func (r *Reconciler) machinesOfCluster(ctx context.Context, cluster client.Object) []reconcile.Request {
	return r.requests(ctx, func(*infrav1.CapstanMachine) bool { return true },
		client.InNamespace(cluster.GetNamespace()), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.GetName()})
}

// machinesOfHost returns the machine that has the host, or, for a free host, all that wait for one. An update is asked for its old and its
// new object, so a machine hears of it when its claim is cleared.
func (r *Reconciler) machinesOfHost(ctx context.Context, object client.Object) []reconcile.Request {
	host, ok := object.(*infrav1.CapstanHost)
	if !ok {
		return nil
	}
	if c := host.Spec.Claim; c != nil {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: host.Namespace, Name: c.Machine}}}
	}
	if !placement.Free(host) {
		return nil
	}
	waits := func(m *infrav1.CapstanMachine) bool {
		return hadHost(m) == "" && m.DeletionTimestamp.IsZero()
	}
	return r.requests(ctx, waits, client.InNamespace(host.Namespace))
}

func (r *Reconciler) requests(ctx context.Context, want func(*infrav1.CapstanMachine) bool, in ...client.ListOption) []reconcile.Request {
	list := &infrav1.CapstanMachineList{}
	if err := r.Client.List(ctx, list, in...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing CapstanMachines that an event is about")
		return nil
	}
	var found []reconcile.Request
	for i := range list.Items {
		if want(&list.Items[i]) {
			found = append(found, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return found
}
