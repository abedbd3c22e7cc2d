package pool

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// queue is the part of a controller's queue through which the pool wakes machines.
type queue interface {
	Add(reconcile.Request)
	AddAfter(reconcile.Request, time.Duration)
}

// Wake makes the pool wake machines through queue q. Use it as a source of the controller of CapstanMachines.
func (p *Pool) Wake(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = q
	return nil
}

// wakes returns the queue through which the pool wakes machines, or nil if Wake was not called yet.
func (p *Pool) wakes() queue {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue
}

// Handler returns the event handler for a watch of CapstanHosts. It updates the pool before it wakes the machine that
// has the host, so the machine never sees a pool that lags behind the event.
func (p *Pool) Handler() handler.EventHandler {
	type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q requests) {
			p.Observe(e.Object)
			wakeClaimants(q, e.Object)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q requests) {
			p.Observe(e.ObjectNew)
			wakeClaimants(q, e.ObjectOld, e.ObjectNew)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q requests) {
			p.Remove(e.Object, e.DeleteStateUnknown)
			wakeClaimants(q, e.Object)
		},
	}
}

// Observe updates the pool with a host from the watch. The pool keeps the object, so it must not change afterwards.
func (p *Pool) Observe(object client.Object) {
	host, ok := object.(*infrav1.CapstanHost)
	if !ok {
		return
	}
	s := p.in(host.Namespace)
	defer s.leave()
	if !p.filter.Matches(host) {
		s.remove(host, false)
		return
	}
	s.observe(host)
}

// Remove removes a host that disappeared from the watch. The parameter stale is true if the object is not the host's
// last state.
func (p *Pool) Remove(object client.Object, stale bool) {
	host, ok := object.(*infrav1.CapstanHost)
	if !ok {
		return
	}
	s := p.in(host.Namespace)
	defer s.leave()
	s.remove(host, stale)
}

// wakeClaimants wakes the machines that have or had the host, so that a machine also learns that its claim was cleared.
func wakeClaimants(q queue, objects ...client.Object) {
	for _, object := range objects {
		if host, ok := object.(*infrav1.CapstanHost); ok && host.Spec.Claim != nil {
			key := types.NamespacedName{Namespace: host.Namespace, Name: host.Spec.Claim.Machine}
			q.Add(reconcile.Request{NamespacedName: key})
		}
	}
}
