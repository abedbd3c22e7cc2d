package cluster

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// Setup registers the reconciler with the manager (IC-44).
func (r *Reconciler) Setup(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	kind := infrav1.GroupVersion.WithKind("CapstanCluster")
	return ctrl.NewControllerManagedBy(mgr).
		Named("capstancluster").
		WithOptions(options).
		For(&infrav1.CapstanCluster{}).
		Watches(&clusterv1.Cluster{},
			handler.EnqueueRequestsFromMapFunc(util.ClusterToInfrastructureMapFunc(ctx, kind, mgr.GetClient(),
				&infrav1.CapstanCluster{})),
			builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, leftNow()))).
		Watches(&infrav1.CapstanMachine{}, handler.EnqueueRequestsFromMapFunc(r.clusterOfMachine),
			// the start of a deletion changes the generation too
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(r.clusterOfControlPlane),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&infrav1.CapstanCluster{}, handler.EnqueueRequestsFromMapFunc(r.clustersBeside),
			builder.WithPredicates(predicate.Funcs{
				CreateFunc: func(event.CreateEvent) bool { return false },
				UpdateFunc: func(event.UpdateEvent) bool { return false },
			})).
		Watches(&infrav1.CapstanHost{}, handler.EnqueueRequestsFromMapFunc(r.clustersOfHost)).
		Complete(r)
}

// leftNow returns a predicate that passes only the update after which the deletion of a Cluster waits for us alone.
func leftNow() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, was := e.ObjectOld.(*clusterv1.Cluster)
			now, is := e.ObjectNew.(*clusterv1.Cluster)
			return was && is && !leftToUs(before) && leftToUs(now)
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

func (r *Reconciler) clusterOfMachine(ctx context.Context, machine client.Object) []reconcile.Request {
	name := machine.GetLabels()[clusterv1.ClusterNameLabel]
	return r.requests(ctx, machine.GetNamespace(),
		func(c *infrav1.CapstanCluster) bool { return name != "" && ownerName(c) == name })
}

// clusterOfControlPlane returns the cluster of a control plane machine. A cluster that gets its first control plane
// machine is then offered all zones that have room.
func (r *Reconciler) clusterOfControlPlane(ctx context.Context, object client.Object) []reconcile.Request {
	machine, ok := object.(*clusterv1.Machine)
	if !ok || !util.IsControlPlaneMachine(machine) {
		return nil
	}
	return r.requests(ctx, machine.Namespace, func(c *infrav1.CapstanCluster) bool {
		return ownerName(c) == machine.Spec.ClusterName
	})
}

// clustersOfHost returns the cluster of the control plane machine on the host, and the clusters whose failure domains
// are outdated: the host may add or remove a zone, or change whether the zone has a host to spare.
func (r *Reconciler) clustersOfHost(ctx context.Context, object client.Object) []reconcile.Request {
	host, ok := object.(*infrav1.CapstanHost)
	if !ok {
		return nil
	}
	claim, outdated := host.Spec.Claim, r.outdated(ctx, host.Namespace)
	return r.requests(ctx, host.Namespace, func(c *infrav1.CapstanCluster) bool {
		return claim != nil && claim.ControlPlane && claim.Cluster == ownerName(c) || outdated(c)
	})
}

// clustersBeside returns the clusters that may use the host that was promised to a deleted cluster.
func (r *Reconciler) clustersBeside(ctx context.Context, gone client.Object) []reconcile.Request {
	return r.requests(ctx, gone.GetNamespace(), r.outdated(ctx, gone.GetNamespace()))
}

// outdated returns a function that reports whether the status of a cluster of the namespace has outdated failure
// domains. If failure domains can't be computed, that function reports true for every cluster.
func (r *Reconciler) outdated(ctx context.Context, namespace string) func(*infrav1.CapstanCluster) bool {
	r.promises.mu.Lock()
	p, err := r.look(ctx, namespace)
	r.promises.mu.Unlock()
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Finding the failure domains that an event is about")
	}
	return func(c *infrav1.CapstanCluster) bool {
		return err != nil || !equality.Semantic.DeepEqual(c.Status.FailureDomains, p.wanted(ownerName(c)))
	}
}

func (r *Reconciler) requests(ctx context.Context, namespace string,
	want func(*infrav1.CapstanCluster) bool) []reconcile.Request {
	list := &infrav1.CapstanClusterList{}
	if err := r.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing CapstanClusters that an event is about")
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
