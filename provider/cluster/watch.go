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
			handler.EnqueueRequestsFromMapFunc(util.ClusterToInfrastructureMapFunc(ctx, kind, mgr.GetClient(), &infrav1.CapstanCluster{})),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&infrav1.CapstanMachine{}, handler.EnqueueRequestsFromMapFunc(r.clusterOfMachine),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})). // the start of a deletion changes the generation too
		Watches(&infrav1.CapstanHost{}, handler.EnqueueRequestsFromMapFunc(r.clustersOfHost)).
		Complete(r)
}

func (r *Reconciler) clusterOfMachine(ctx context.Context, machine client.Object) []reconcile.Request {
	name := machine.GetLabels()[clusterv1.ClusterNameLabel]
	return r.requests(ctx, machine.GetNamespace(), func(c *infrav1.CapstanCluster) bool { return name != "" && ownerName(c) == name })
}

// clustersOfHost returns the cluster whose control plane the host carries, and those whose failure domains are not the inventory's any
// more: a host may bring a zone or take one away, open it to control planes or fill it.
func (r *Reconciler) clustersOfHost(ctx context.Context, object client.Object) []reconcile.Request {
	host, ok := object.(*infrav1.CapstanHost)
	if !ok {
		return nil
	}
	domains, err := r.domainsOf(ctx, host.Namespace)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Finding the failure domains that an event is about")
	}
	return r.requests(ctx, host.Namespace, func(c *infrav1.CapstanCluster) bool {
		if claim := host.Spec.Claim; claim != nil && claim.ControlPlane && claim.Cluster == ownerName(c) {
			return true
		}
		return err != nil || !equality.Semantic.DeepEqual(c.Status.FailureDomains, domains)
	})
}

func (r *Reconciler) requests(ctx context.Context, namespace string, want func(*infrav1.CapstanCluster) bool) []reconcile.Request {
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
