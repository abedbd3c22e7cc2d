package host

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
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

// requests is a queue of hosts to reconcile.
type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Setup registers the reconciler with the manager.
func (r *Reconciler) Setup(mgr ctrl.Manager, options controller.Options) error {
	deleted := predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("capstanhost").
		WithOptions(options).
		For(&infrav1.CapstanHost{}).
		Watches(&coordinationv1.Lease{}, handler.Funcs{
			CreateFunc: func(_ context.Context, e event.CreateEvent, queue requests) {
				r.onLease(e.Object, queue)
			},
			UpdateFunc: func(_ context.Context, e event.UpdateEvent, queue requests) {
				r.onLease(e.ObjectNew, queue)
				if !intact(e.ObjectNew) {
					r.onLostLease(e.ObjectOld, queue)
				}
			},
			DeleteFunc: func(_ context.Context, e event.DeleteEvent, queue requests) {
				r.onLostLease(e.Object, queue)
			},
		}).
		Watches(&infrav1.CapstanMachine{}, handler.EnqueueRequestsFromMapFunc(hostOfMachine),
			builder.WithPredicates(deleted)).
		Complete(r)
}

// onLease records a heartbeat. It starts a pass only if the heartbeat changes the liveness of the host, because a
// thousand hosts send a hundred heartbeats a second.
func (r *Reconciler) onLease(object client.Object, queue requests) {
	lease, ok := object.(*coordinationv1.Lease)
	if !ok {
		return
	}
	if host, ours := hostOf(lease); ours && r.beats.observe(host, lease.Spec.RenewTime) {
		queue.Add(reconcile.Request{NamespacedName: host})
	}
}

// onLostLease starts a pass that recreates a host's Lease after somebody has deleted or changed it.
func (r *Reconciler) onLostLease(lease client.Object, queue requests) {
	if host, ours := hostOf(lease); ours {
		r.noteLease(host)
		queue.Add(reconcile.Request{NamespacedName: host})
	}
}

func hostOfMachine(_ context.Context, object client.Object) []reconcile.Request {
	m, ok := object.(*infrav1.CapstanMachine)
	if !ok || m.Status.Host == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: m.Namespace, Name: m.Status.Host}}}
}
