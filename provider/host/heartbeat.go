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

// Clock is a source of time.
type Clock = clock.PassiveClock

// DefaultHeartbeatTimeout is four heartbeat intervals of the agent.
const DefaultHeartbeatTimeout = 40 * time.Second

// liveness is what is known about whether a host is alive.
type liveness int

const (
	// unseen: nothing is known yet; the previous condition stays.
	unseen liveness = iota
	alive
	silent
)

// heartbeats decides from changes of Leases which hosts are alive. All that counts is that a Lease changed, and when
// this process saw the change, so the clocks of hosts need not be trusted. A process that has just started has seen no
// changes, so hosts may be unseen for up to one timeout.
type heartbeats struct {
	clock   Clock
	timeout time.Duration

	mu   sync.Mutex
	last map[types.NamespacedName]beat
}

type beat struct {
	renewed time.Time // the renew time in the Lease
	at      time.Time // when we saw this renew time
	changed bool      // renewed differed from what we saw before
}

func newHeartbeats(clock Clock, timeout time.Duration) *heartbeats {
	return &heartbeats{clock: clock, timeout: timeout, last: map[types.NamespacedName]beat{}}
}

// observe records the renew time of a host's Lease. It reports whether the host is alive now and was not before.
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

// of returns the liveness of a host, and how soon it can change without a heartbeat; 0 means that it can't.
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

// reset starts over with a host: the present state of its Lease does not count as a sign of life.
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

// slack is added to the time until the next check of a host, so that its timeout has really passed by then.
const slack = 500 * time.Millisecond

// heartbeat finds out whether the host is alive. It skips supplied hosts without a claim, which are off.
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
		// The host is about to be powered on: earlier heartbeats came from a previous host of the same name.
		r.beats.reset(key, lease.Spec.RenewTime)
	}
	r.beats.observe(key, lease.Spec.RenewTime)
	live, left := r.beats.of(key)
	s.live = live
	switch {
	case left > 0:
		s.again = left + slack
	case s.host.Spec.Supplier != "":
		s.again = r.HeartbeatTimeout + slack // then the step power tries again
	}
	return step.Next(), nil
}

// hostOf returns the host that a Lease belongs to. It reports false if it belongs to none.
func hostOf(lease client.Object) (types.NamespacedName, bool) {
	if lease.GetLabels()[identity.Label] != lease.GetName() {
		return types.NamespacedName{}, false
	}
	return client.ObjectKeyFromObject(lease), true
}
