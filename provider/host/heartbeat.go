package host

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/provider/identity"
	"github.com/capstan-dev/capstan/provider/step"
)

// Clock tells the time.
type Clock = clock.PassiveClock

// DefaultHeartbeatTimeout is four heartbeats of the agent.
const DefaultHeartbeatTimeout = 40 * time.Second

// liveness of a host.
type liveness int

const (
	// unseen: nothing is known yet; what was concluded before holds.
	unseen liveness = iota
	alive
	silent
)

// heartbeats tells from the changes of Leases which hosts live. Only that a Lease changes counts, and when this process
// saw it, so no clock of a host is trusted. A process that has just started sees no change at first, and then knows
// nothing for one timeout at most.
type heartbeats struct {
	clock   Clock
	timeout time.Duration

	mu   sync.Mutex
	last map[types.NamespacedName]beat
}

type beat struct {
	renewed time.Time // what the Lease says
	at      time.Time // when we saw it
	changed bool      // it differed from what we saw before
}

func newHeartbeats(clock Clock, timeout time.Duration) *heartbeats {
	return &heartbeats{clock: clock, timeout: timeout, last: map[types.NamespacedName]beat{}}
}

// observe takes note of a host's Lease, and reports whether the host lives now and did not before.
func (h *heartbeats) observe(host types.NamespacedName, renewed *metav1.MicroTime) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, value := h.clock.Now(), time.Time{}
	if renewed != nil {
		value = renewed.Time
	}
	before, known := h.last[host]
	if !known {
		h.last[host] = beat{renewed: value, at: now}
		return false
	}
	if before.renewed.Equal(value) {
		return false
	}
	was, _ := h.judge(before, now)
	h.last[host] = beat{renewed: value, at: now, changed: true}
	return was != alive
}

// of tells whether the host lives, and in what time that can change without a heartbeat; 0: not at all.
func (h *heartbeats) of(host types.NamespacedName) (liveness, time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b, known := h.last[host]
	if !known {
		return unseen, h.timeout
	}
	return h.judge(b, h.clock.Now())
}

func (h *heartbeats) judge(b beat, now time.Time) (liveness, time.Duration) {
	left := h.timeout - now.Sub(b.at)
	switch {
	case left <= 0:
		return silent, 0
	case b.changed:
		return alive, left
	default:
		return unseen, left
	}
}

// reset starts over with a host: what its Lease says now is old.
func (h *heartbeats) reset(host types.NamespacedName, renewed *metav1.MicroTime) {
	h.forget(host)
	h.observe(host, renewed)
}

// forget drops what is known about a host.
func (h *heartbeats) forget(host types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.last, host)
}

// slack is added to the time after which a host is looked at again, so that its time is really over then.
const slack = 500 * time.Millisecond

// heartbeat finds out whether the host lives. A supplied host without claim is off, and needs none.
func (r *Reconciler) heartbeat(ctx context.Context, s *scope) (step.Answer, error) {
	if s.host.Spec.Supplier != "" && s.host.Spec.Claim == nil {
		return step.Next(), nil
	}
	lease := &coordinationv1.Lease{}
	key := client.ObjectKeyFromObject(s.host)
	if err := r.Client.Get(ctx, key, lease); client.IgnoreNotFound(err) != nil {
		return step.Answer{}, fmt.Errorf("reading the Lease: %w", err)
	}
	if c := s.host.Spec.Claim; c != nil && s.host.Spec.Supplier != "" && r.lastPower(s.host).providerID != c.ProviderID {
		// It is about to be powered on: whatever beat before was another host of that name.
		r.beats.reset(key, lease.Spec.RenewTime)
	}
	r.beats.observe(key, lease.Spec.RenewTime)
	live, left := r.beats.of(key)
	s.live = live
	switch {
	case left > 0:
		s.again = left + slack
	case s.host.Spec.Supplier != "":
		s.again = r.HeartbeatTimeout + slack // then power tries again
	}
	return step.Next(), nil
}

// hostOf returns the host whose heartbeat a Lease is.
func hostOf(lease client.Object) (types.NamespacedName, bool) {
	if lease.GetLabels()[identity.Label] != lease.GetName() {
		return types.NamespacedName{}, false
	}
	return client.ObjectKeyFromObject(lease), true
}
