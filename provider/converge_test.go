package provider

import (
	"fmt"
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// life creates a cluster of one control plane machine and two workers, replaces a worker, deletes everything, and
// checks the state after each of these. It is the same for supplied and for owned hosts.
func life(w *world) {
	t := w.t
	w.settle()
	used := map[string]bool{}
	for _, name := range []string{"cp", "w1", "w2"} {
		m := w.machine(name)
		if !conditions.IsTrue(m, infrav1.ReadyCondition) || !ptr.Deref(m.Status.Initialization.Provisioned, false) {
			t.Fatalf("machine %s is not ready: %+v", name, m.Status)
		}
		used[m.Status.Host] = true
		h := w.host(m.Status.Host)
		if h.Status.Phase != infrav1.HostInUse || h.Spec.Claim.ProviderID != m.Spec.ProviderID ||
			h.Spec.Zone != m.Status.FailureDomain {
			t.Fatalf("machine %s and its host %s don't agree: %+v, %+v", name, h.Name, m, h)
		}
		if w.exists(h.Name+infrav1.BootstrapSecretSuffix, &corev1.Secret{}) {
			t.Fatalf("the bootstrap data of host %s is left after success", h.Name)
		}
	}
	if len(used) != 3 {
		t.Fatalf("three machines use the hosts %v", used)
	}
	cp := w.machine("cp").Status.Host
	if got, want := fmt.Sprint(w.backends["demo"]), fmt.Sprintf("[%s:6443]", address(cp)); got != want {
		t.Fatalf("backends %s, want %s (IM-51)", got, want)
	}

	w1 := w.machine("w1").Status.Host
	w.must(w.api.Delete(t.Context(), w.machine("w1")))
	for _, o := range member("w3", false) {
		w.must(w.api.Create(t.Context(), o))
	}
	w.settle()
	if w.exists("w1", &infrav1.CapstanMachine{}) {
		t.Fatalf("machine w1 is left after its deletion (IM-60): %+v", w.machine("w1").Status)
	}
	if h := w.host(w1); h.Spec.Claim != nil && h.Spec.Claim.Machine == "w1" {
		t.Fatalf("host %s is still claimed by a machine that is gone", w1)
	}
	if m := w.machine("w3"); !conditions.IsTrue(m, infrav1.ReadyCondition) {
		t.Fatalf("machine w3 is not ready: %+v", m.Status)
	}

	for _, name := range []string{"cp", "w2", "w3"} {
		w.must(w.api.Delete(t.Context(), w.machine(name)))
	}
	w.must(w.api.Delete(t.Context(), w.capstanCluster("demo-infra")))
	w.settle()
	if n := len(w.allMachines()) + len(w.allClusters()) + len(w.running) + len(w.backends); n != 0 {
		t.Fatalf("left: machines %v, clusters %v, hosts running %v, balancers %v", w.allMachines(), w.allClusters(),
			w.running, w.backends)
	}
	for _, h := range w.allHosts() {
		if h.Spec.Claim != nil || !conditions.IsTrue(&h, infrav1.ReadyCondition) ||
			!conditions.IsTrue(&h, infrav1.CleanCondition) {
			t.Fatalf("host %s is not free again: %+v, %+v", h.Name, h.Spec, h.Status)
		}
		if w.exists(h.Name+infrav1.BootstrapSecretSuffix, &corev1.Secret{}) {
			t.Fatalf("the bootstrap data of host %s is left", h.Name)
		}
		w.must(w.api.Delete(t.Context(), &h))
	}
	w.settle()
	accounts := &corev1.ServiceAccountList{}
	if list(w, accounts); len(w.allHosts()) != 0 || len(accounts.Items) != 0 {
		t.Fatalf("left: hosts %v, accounts %v", w.allHosts(), accounts.Items)
	}
}

// newLife returns a world with five hosts, a cluster, a control plane machine and two workers.
func newLife(t *testing.T, supplier string) *world {
	return newWorld(t, join(hosts(5, supplier), demo(infrav1.LoadBalancerLocal), member("cp", true), member("w1", false),
		member("w2", false))...)
}

// defaultShare is the share of calls that the test makes fail: one in defaultShare.
var defaultShare = 8

// ways are the ways in which a call can fail.
var ways = []struct {
	name string
	fault
}{
	{"answer lost", answerLost}, {"refused", refused}, {"provider killed", answerLost},
	{"conflict", conflict}, {"too many requests", tooMany}, {"timed out", timedOut},
}

// TestEveryCallFailsOnce makes one of the provider's calls fail in each life, in one of these ways: the answer is lost
// after the effect, there is no effect, the provider is killed after the effect, or the API server answers with a
// conflict, 429 or a timeout. Each time everything must converge, and no host may be claimed twice in the process
// (IM-49, IM-63, IC-48). With CAPSTAN_TEST_EVERY set, every write and every fourth read fails in turn; otherwise only
// one in defaultShare of them fails, and each way to fail covers different calls.
func TestEveryCallFailsOnce(t *testing.T) {
	for name, supplier := range map[string]string{"supplied hosts": infrav1.SupplierDock, "owned hosts": ""} {
		t.Run(name, func(t *testing.T) {
			w := newLife(t, supplier)
			life(w)
			t.Logf("%d calls, %d of them write", w.calls, len(w.writes))
			share := defaultShare
			if os.Getenv("CAPSTAN_TEST_EVERY") != "" {
				share = 1
			}
			for offset, how := range ways {
				calls := slices.Clone(w.writes)
				for n := 1; n <= w.calls && how.name == "refused"; n += 4 {
					calls = append(calls, n)
				}
				t.Run(how.name, func(t *testing.T) {
					t.Parallel()
					for i, n := range calls {
						if (i+offset)%share == 0 {
							lifeWithFault(t, supplier, how.name, how.fault, n)
						}
					}
				})
			}
		})
	}
}

func lifeWithFault(t *testing.T, supplier, how string, f fault, n int) {
	w := newLife(t, supplier)
	w.inject = func(call int) fault {
		if call != n {
			return works
		}
		if how == "provider killed" {
			w.restart()
		}
		return f
	}
	life(w)
	if t.Failed() {
		t.Fatalf("%s at call %d", how, n)
	}
}
