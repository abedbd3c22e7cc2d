package provider

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/supply"
)

func TestHostThatDiesOrVanishes(t *testing.T) { // T-IM-16: IM-20
	w := newWorld(t, join(hosts(2, ""), demo(infrav1.LoadBalancerLocal), member("w1", false))...)
	w.settle()
	name := w.machine("w1").Status.Host
	w.dead[name] = true
	for range 12 {
		w.pass()
		w.agents()
		w.invariants()
		w.clock.SetTime(w.clock.Now().Add(5e9))
	}
	w.readyIs(w.machine("w1"), "False HostOffline")
	if h := w.host(name); h.Status.Phase != infrav1.HostOffline {
		t.Errorf("the dead host is %s", h.Status.Phase)
	}
	delete(w.dead, name)
	w.settle()
	w.readyIs(w.machine("w1"), "True Ready")

	edit(w, w.host(name), func(h *infrav1.CapstanHost) { h.Finalizers = nil })
	w.must(w.api.Delete(t.Context(), w.host(name)))
	w.settle()
	w.readyIs(w.machine("w1"), "False HostGone")
	for _, h := range w.allHosts() {
		if h.Spec.Claim != nil {
			t.Errorf("the machine took a second host, %s (IM-63)", h.Name)
		}
	}
	w.must(w.api.Delete(t.Context(), w.machine("w1")))
	w.settle()
	if w.exists("w1", &infrav1.CapstanMachine{}) {
		t.Error("a machine whose host is gone can't be deleted")
	}
}

func TestHostInUseIsNotDeleted(t *testing.T) {
	w := oneWorker(t)
	w.settle()
	name := w.machine("w1").Status.Host
	w.must(w.api.Delete(t.Context(), w.host(name)))
	w.settle()
	w.readyIs(w.host(name), "False Deleting")
	w.readyIs(w.machine("w1"), "True Ready")
	w.must(w.api.Delete(t.Context(), w.machine("w1")))
	w.settle()
	if w.exists(name, &infrav1.CapstanHost{}) || len(w.running) != 0 {
		t.Errorf("the host still exists or runs; running %v", w.running)
	}
}

func TestClaimOfAMachineThatVanishedIsShownAndKept(t *testing.T) {
	w := oneWorker(t)
	w.settle()
	name := w.machine("w1").Status.Host
	edit(w, w.machine("w1"), func(m *infrav1.CapstanMachine) { m.Finalizers = nil })
	w.must(w.api.Delete(t.Context(), w.machine("w1")))
	w.settle()
	h := w.host(name)
	w.readyIs(h, "False MachineGone")
	if h.Spec.Claim == nil || h.Spec.Claim.Released || !w.running[name] {
		t.Error("the host was released or powered off, although its machine may still arrive")
	}
}

func TestHostThatDoesNotComeUpIsPoweredOnAgain(t *testing.T) {
	w := oneWorker(t)
	w.dead["host-01"] = true
	for range 30 {
		w.pass()
		w.core()
		w.agents()
		w.clock.SetTime(w.clock.Now().Add(5e9))
	}
	n := 0
	for _, call := range w.changes() {
		if call == "power on host-01" {
			n++
		}
	}
	if n < 2 || n > 5 {
		t.Errorf("powered on %d times in 150 s, want about once in 40 s", n)
	}
	delete(w.dead, "host-01")
	w.settle()
	w.readyIs(w.machine("w1"), "True Ready")
}

func TestSupplierIsMissing(t *testing.T) {
	for name, c := range map[string]struct {
		namespace string
		none      bool
	}{"there is no supplier": {ns, true}, "the supplier works in another namespace": {"other", false}} {
		t.Run(name, func(t *testing.T) {
			w := oneWorker(t)
			w.hosts.SupplyNamespace = supply.In(c.namespace)
			if c.none {
				w.hosts.Supplier = nil
			}
			w.settle()
			w.readyIs(w.host("host-01"), "False SupplierMissing")
			w.readyIs(w.machine("w1"), "False NoHostMatches")
			w.must(w.api.Delete(t.Context(), w.host("host-01")))
			w.settle()
			if w.exists("host-01", &infrav1.CapstanHost{}) {
				t.Error("a host without a supplier can't be deleted")
			}
		})
	}
}

// deadWorker returns a world in which machine w1 is being deleted and its host is dead.
func deadWorker(t *testing.T) (w *world, host string) {
	t.Helper()
	w = newWorld(t, join(hosts(2, ""), demo(infrav1.LoadBalancerLocal), member("w1", false))...)
	w.settle()
	host = w.machine("w1").Status.Host
	w.dead[host] = true
	w.must(w.api.Delete(t.Context(), w.machine("w1")))
	for range 12 {
		w.pass()
		w.agents()
		w.invariants()
		w.clock.SetTime(w.clock.Now().Add(5e9))
	}
	return w, host
}

func TestHostThatIsNeverCleanIsGivenUp(t *testing.T) {
	w, name := deadWorker(t)
	m := w.machine("w1")
	w.readyIs(m, "False Deleting")
	provider := w.host(name).Spec.Claim.ProviderID
	remedy := infrav1.AbandonAnnotation + "=" + provider
	if c := conditions.Get(m, infrav1.ReadyCondition); !strings.Contains(c.Message, "is offline") ||
		!strings.Contains(c.Message, remedy) {
		t.Errorf("the message is %q, and does not say %q", c.Message, remedy)
	}
	for _, value := range []string{"", "true", provider + "0"} {
		edit(w, w.host(name), func(h *infrav1.CapstanHost) {
			h.Annotations = map[string]string{infrav1.AbandonAnnotation: value}
		})
		w.settle()
		w.readyIs(w.machine("w1"), "False Deleting")
	}

	edit(w, w.host(name), func(h *infrav1.CapstanHost) {
		h.Annotations = map[string]string{infrav1.AbandonAnnotation: provider}
	})
	w.settle()
	if w.exists("w1", &infrav1.CapstanMachine{}) {
		t.Error("the machine waits for the host that was given up")
	}
	h := w.host(name)
	w.readyIs(h, "False Abandoned")
	if h.Status.Phase != infrav1.HostQuarantined || h.Spec.Claim == nil {
		t.Errorf("the host that nobody has cleaned is %s, its claim %+v", h.Status.Phase, h.Spec.Claim)
	}

	delete(w.dead, name)
	w.settle()
	if h := w.host(name); h.Status.Phase != infrav1.HostAvailable || h.Spec.Claim != nil {
		t.Errorf("the host that came back and was cleaned is %s, its claim %+v", h.Status.Phase, h.Spec.Claim)
	}
}

func TestHostThatIsGivenUpCanBeDeleted(t *testing.T) {
	w, name := deadWorker(t)
	w.must(w.api.Delete(t.Context(), w.host(name)))
	w.settle()
	w.readyIs(w.host(name), "False Deleting")
	edit(w, w.host(name), func(h *infrav1.CapstanHost) {
		h.Annotations = map[string]string{infrav1.AbandonAnnotation: h.Spec.Claim.ProviderID}
	})
	w.settle()
	if w.exists("w1", &infrav1.CapstanMachine{}) || w.exists(name, &infrav1.CapstanHost{}) ||
		w.exists(infrav1.IdentityPrefix+name, &corev1.ServiceAccount{}) {
		t.Error("something is left of a host that was given up and deleted, or of its machine")
	}
}

// Giving up applies only to the claim that it names, and only once that claim is released.
func TestHostInUseIsNotGivenUp(t *testing.T) {
	w := newWorld(t, join(hosts(1, ""), demo(infrav1.LoadBalancerLocal), member("w1", false))...)
	w.settle()
	name := w.machine("w1").Status.Host
	edit(w, w.host(name), func(h *infrav1.CapstanHost) {
		h.Annotations = map[string]string{infrav1.AbandonAnnotation: h.Spec.Claim.ProviderID}
	})
	w.settle()
	w.readyIs(w.machine("w1"), "True Ready")
	w.readyIs(w.host(name), "True InUse")
	w.must(w.api.Delete(t.Context(), w.host(name)))
	w.settle()
	w.readyIs(w.host(name), "False Deleting")
}
