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

// queue is where machines are woken: the part of a controller's queue that the pool uses.
type queue interface {
	Add(reconcile.Request)
	AddAfter(reconcile.Request, time.Duration)
}

// Wake lets the pool wake machines through the queue of their controller. It is a source of that controller.
func (p *Pool) Wake(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = q
	return nil
}

// wakes returns where machines are woken; nil: nowhere yet.
func (p *Pool) wakes() queue {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue
}

// Handler returns what a watch of CapstanHosts tells its events. The machine that has a host is woken after the pool
// knows of the event, so it never looks into a pool that is behind it.
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

// Observe takes note of a host that the watch shows. The pool keeps the object, which must not change any more.
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

// Remove takes note of a host that the watch doesn't show any more. stale is true if the object is not its last state.
func (p *Pool) Remove(object client.Object, stale bool) {
	host, ok := object.(*infrav1.CapstanHost)
	if !ok {
		return
	}
	s := p.in(host.Namespace)
	defer s.leave()
	s.remove(host, stale)
}

// wakeClaimants wakes the machines that have or had the host: also one whose claim was cleared hears of it.
func wakeClaimants(q queue, objects ...client.Object) {
	for _, object := range objects {
		if host, ok := object.(*infrav1.CapstanHost); ok && host.Spec.Claim != nil {
			key := types.NamespacedName{Namespace: host.Namespace, Name: host.Spec.Claim.Machine}
			q.Add(reconcile.Request{NamespacedName: key})
		}
	}
}
