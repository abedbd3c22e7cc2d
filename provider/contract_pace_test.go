//go:build linux

package provider

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/pace"
)

// limit sets the reconcilers' limits for operations on hosts.
func (w *world) limit(limits pace.Limits) {
	w.t.Helper()
	w.must(limits.Complete())
	pacer := pace.New(limits, w.clock)
	w.machines.Pace, w.hosts.Pace = pacer, pacer
}

// crowd returns a world with n machines that each want a host.
func crowd(t *testing.T, n int) *world {
	t.Helper()
	objects := join(hosts(n, infrav1.SupplierDock), demo(infrav1.LoadBalancerLocal))
	for i := range n {
		objects = append(objects, member(fmt.Sprintf("w%d", i+1), false)...)
	}
	return newWorld(t, objects...)
}

// TestABurstTowardsHostsIsSlowedDown creates or deletes many machines at once. Each operation on their hosts must run
// at the rate of the limit for all hosts, and all operations must finish in the end.
func TestABurstTowardsHostsIsSlowedDown(t *testing.T) { // SG-04
	const machines, burst = 12, 4
	for name, c := range map[string]struct {
		ofHosts  bool // the reconciler of hosts performs the operation
		deleting bool
		done     func(*world, *infrav1.CapstanHost) bool
	}{
		"claims": {done: func(_ *world, h *infrav1.CapstanHost) bool { return h.Spec.Claim != nil }},
		"powering on": {
			ofHosts: true, done: func(w *world, h *infrav1.CapstanHost) bool { return w.running[h.Name] },
		},
		"releases": {deleting: true, done: func(_ *world, h *infrav1.CapstanHost) bool {
			return h.Spec.Claim == nil || h.Spec.Claim.Released
		}},
		"destroying": {
			ofHosts: true, deleting: true, done: func(w *world, h *infrav1.CapstanHost) bool { return !w.running[h.Name] },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := crowd(t, machines)
			w.settleCluster()
			if c.deleting {
				w.settle()
				for _, m := range w.allMachines() {
					w.must(w.api.Delete(t.Context(), &m))
				}
			}
			w.limit(pace.Limits{All: pace.Limit{PerSecond: 0.2, Burst: burst}})
			if c.ofHosts {
				w.machines.Pace = nil
			} else {
				w.hosts.Pace = nil
			}
			w.slowly(burst, machines, func(h *infrav1.CapstanHost) bool { return c.done(w, h) })
			t.Attr("rule", "SG-04")
			w.settle()
			for _, m := range w.allMachines() {
				w.readyIs(&m, "True Ready")
			}
			if c.deleting && len(w.running)+len(w.allMachines()) != 0 {
				t.Errorf("hosts that run: %v, and %d machines are left", w.running, len(w.allMachines()))
			}
		})
	}
}

// slowly runs passes, 5 s apart, until the operation is done on all hosts. It fails the test if, after any pass, the
// operation is done on more hosts than the burst plus one for each pass.
func (w *world) slowly(burst, all int, done func(*infrav1.CapstanHost) bool) {
	w.t.Helper()
	for pass := range 100 {
		w.pass()
		w.core()
		w.agents()
		n := 0
		for _, h := range w.allHosts() {
			if done(&h) {
				n++
			}
		}
		if n > burst+pass {
			w.t.Errorf("the operation is done on %d hosts after %d s, want %d at most", n, 5*pass, burst+pass)
			return
		}
		if n == all {
			return
		}
		w.clock.SetTime(w.clock.Now().Add(5 * time.Second))
	}
	w.t.Error("the operation is not done on all hosts after 500 s")
}

// TestOneHostIsLeftInPeace checks that the number of operations on one host is limited when somebody keeps deleting its
// bootstrap data, or its supplier keeps failing.
func TestOneHostIsLeftInPeace(t *testing.T) { // SG-04
	const burst, seconds = 3, 600
	w := crowd(t, 1)
	w.settleCluster()
	w.limit(pace.Limits{Each: pace.Limit{PerSecond: 1. / 60, Burst: burst}})
	w.broken = "power on host-01"
	limited := false
	for range seconds / 5 {
		w.pass()
		secret := &corev1.Secret{}
		secret.Namespace, secret.Name = ns, "host-01"+infrav1.BootstrapSecretSuffix
		if err := w.api.Delete(t.Context(), secret); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		reason := conditions.GetReason(w.host("host-01"), infrav1.ReadyCondition)
		limited = limited || reason == infrav1.RateLimitedReason
		w.clock.SetTime(w.clock.Now().Add(5 * time.Second))
	}
	const most = burst + seconds/60
	calls := map[string]int{}
	for _, call := range w.log {
		calls[call]++
	}
	if n := calls["power on host-01"]; n < burst || n > most {
		t.Errorf("the host was powered on %d times in 10 minutes, want %d to %d", n, burst, most)
	}
	t.Attr("rule", "SG-04")
	delivered := 0
	for call, n := range calls {
		if strings.HasSuffix(call, "v1.Secret") && strings.HasPrefix(call, "create") {
			delivered += n
		}
	}
	if delivered < burst || delivered > most+2 { // plus the Secrets of its epochs
		t.Errorf("the host was given bootstrap data %d times in 10 minutes, want %d to %d", delivered, burst, most)
	}
	t.Attr("rule", "SG-04")
	if !limited {
		t.Error("condition Ready of the host never had the reason RateLimited")
	}
}

// settleCluster lets the cluster settle until its machines may claim hosts.
func (w *world) settleCluster() {
	w.t.Helper()
	for range 20 {
		for i := range w.allClusters() {
			if _, err := w.clusters.Reconcile(w.t.Context(), requestOf(&w.allClusters()[i])); err != nil {
				w.t.Fatal(err)
			}
		}
		w.core()
	}
}
