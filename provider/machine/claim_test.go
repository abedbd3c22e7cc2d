package machine

import (
	"errors"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/claim"
	"github.com/capstan-dev/capstan/provider/step"
)

// held returns the names of the hosts that w1 holds.
func (f *fixture) held() string {
	f.t.Helper()
	list := &infrav1.CapstanHostList{}
	if err := f.api.List(f.t.Context(), list, client.InNamespace(ns)); err != nil {
		f.t.Fatal(err)
	}
	var hosts []*infrav1.CapstanHost
	for i := range list.Items {
		hosts = append(hosts, &list.Items[i])
	}
	var names []string
	for _, host := range claim.Held(hosts, f.machine("w1")) {
		names = append(names, host.Name)
	}
	return strings.Join(names, " ")
}

func TestClaimHost(t *testing.T) { // IM-49
	trial{
		objects: worldOf(), run: (*Reconciler).claimHost, calls: []string{"patch CapstanHost"},
		check: func(t *testing.T, f *fixture, s *scope, answer step.Answer) {
			if got := f.held(); got != "host-01" || s.host == nil || s.host.Name != got || answer.Stopped() {
				t.Errorf("holds %q, found %v, stopped %t", got, s.host, answer.Stopped())
			}
		},
	}.do(t)
}

// TestClaimIsForMachinesThatNeverHadAHost checks that a machine that had a host gets no other: there must not be a
// second instance (IM-63).
func TestClaimIsForMachinesThatNeverHadAHost(t *testing.T) {
	for name, edit := range map[string]change{
		"w1 holds a host":        claimed("host-02"),
		"w1's status has a host": machineIs(func(m *infrav1.CapstanMachine) { m.Status.Host = "host-09" }),
		"w1 has a provider id":   machineIs(func(m *infrav1.CapstanMachine) { m.Spec.ProviderID = "capstan://a/b/c" }),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, world(edit)...)
			before := f.held()
			answer, err := f.claimHost(t.Context(), f.scope())
			if err != nil || answer.Stopped() || len(f.calls) != 0 || f.held() != before {
				t.Errorf("error %v, calls %v, holds %q, held %q", err, f.calls, f.held(), before)
			}
		})
	}
}

// TestAClaimWhoseAnswerWasLostIsFound covers a claim that the API server has and the watch doesn't show yet. Until it
// is looked up, the machine must get no other host.
func TestAClaimWhoseAnswerWasLostIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		effect bool
		calls  []string
	}{
		"the claim was written": {effect: true, calls: []string{"get CapstanHost"}},
		"the claim was not written, and is written again so that the first one can't succeed": {
			calls: []string{"get CapstanHost", "patch CapstanHost"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, world()...)
			f.fault = onCall(1, fault{err: errInjected, effect: c.effect})
			s := f.scope()
			f.lags = true
			if _, err := f.claimHost(t.Context(), s); err == nil || s.host != nil {
				t.Fatalf("error %v, host %v", err, s.host)
			}
			pick, _, err := f.pick(f.scope())
			if err == nil || pick != nil || !strings.Contains(err.Error(), "not known yet") {
				t.Errorf("the machine is given another host: %v, error %v", pick, err)
			}
			f.fault, f.calls = nil, nil
			again := f.scope()
			if again.host != nil {
				t.Fatal("the watch already shows the claim, so this test proves nothing")
			}
			answer, err := f.place(t.Context(), again)
			if err != nil || answer.Stopped() {
				t.Fatalf("the outcome of the claim was not found out: stopped %t, error %v", answer.Stopped(), err)
			}
			if _, err := f.claimHost(t.Context(), again); err != nil || again.host == nil || f.held() != "host-01" {
				t.Errorf("error %v, found %v, holds %q", err, again.host, f.held())
			}
			if !slices.Equal(f.calls, c.calls) {
				t.Errorf("calls %q, want %q", f.calls, c.calls)
			}
		})
	}
}

// TestALostClaimOfAMachineInDeletion checks that the host is not left behind when the machine is deleted.
func TestALostClaimOfAMachineInDeletion(t *testing.T) {
	for _, effect := range []bool{true, false} {
		f := newFixture(t, world()...)
		f.fault = onCall(1, fault{err: errInjected, effect: effect})
		s := f.scope()
		f.lags = true
		if _, err := f.claimHost(t.Context(), s); err == nil {
			t.Fatal("the step does not return the error of the claim")
		}
		f.fault = nil
		m := f.machine("w1")
		m.Finalizers = []string{infrav1.MachineFinalizer}
		if err := errors.Join(f.api.Update(t.Context(), m), f.api.Delete(t.Context(), m)); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := f.pass(); err != nil {
				t.Fatal(err)
			}
		}
		if host := f.host("host-01"); host.Spec.Claim == nil || !host.Spec.Claim.Released {
			t.Errorf("the first claim was written: %t; the host has the claim %+v", effect, host.Spec.Claim)
		}
	}
}

// TestAMachineThatIsGoneHoldsNoHostBack checks that the lost claim of a deleted machine doesn't keep a host set aside.
func TestAMachineThatIsGoneHoldsNoHostBack(t *testing.T) {
	f := newFixture(t, world()...)
	f.fault = onCall(1, fault{err: errInjected})
	s := f.scope()
	if _, err := f.claimHost(t.Context(), s); err == nil {
		t.Fatal("the step does not return the error of the claim")
	}
	f.fault = nil
	if err := f.api.Delete(t.Context(), f.machine("w1")); err != nil {
		t.Fatal(err)
	}
	if err := f.pass(); err != nil {
		t.Fatal(err)
	}
	request, _ := plan(s)
	if fits, why := f.Hosts.Place(s.capstan, request); !fits || why.String() != "2 of 2 hosts fit" {
		t.Errorf("placement says %s", why)
	}
}

// TestARefusedClaimIsNotLookedUp covers a claim that the API server rejected, so its outcome is known.
func TestARefusedClaimIsNotLookedUp(t *testing.T) {
	f := newFixture(t, world()...)
	f.fault = named("patch CapstanHost", forbidden())
	s := f.scope()
	if _, err := f.claimHost(t.Context(), s); !apierrors.IsForbidden(err) {
		t.Fatalf("error %v", err)
	}
	f.fault, f.calls = nil, nil
	_, err := f.claimHost(t.Context(), s)
	if err != nil || s.host == nil || !slices.Equal(f.calls, []string{"patch CapstanHost"}) {
		t.Errorf("error %v, host %v, calls %q", err, s.host, f.calls)
	}
}

func TestHostThatChangesWhileItIsClaimed(t *testing.T) {
	resource := schema.GroupResource{Resource: "capstanhosts"}
	changed := apierrors.NewConflict(resource, "host-01", errInjected)
	for name, c := range map[string]struct {
		err   error
		times int
		fails bool
	}{
		"the host changes once":                      {err: changed, times: 1},
		"the host is deleted":                        {err: apierrors.NewNotFound(resource, "host-01"), times: 1},
		"the host changes at every try but the last": {err: changed, times: claimTries - 1},
		"the host changes at every try":              {err: changed, times: claimTries, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, world()...)
			failed := 0
			f.fault = func(_ int, name string) fault {
				if name != "patch CapstanHost" || failed == c.times {
					return fault{}
				}
				failed++
				return fault{err: c.err}
			}
			s := f.scope()
			_, err := f.claimHost(t.Context(), s)
			if (err != nil) != c.fails || (s.host == nil) != c.fails {
				t.Errorf("error %v, host %v", err, s.host)
			}
		})
	}
}

// TestClaimDecidesOnWhatIs covers a host that is claimed although the watch shows it as free.
func TestClaimDecidesOnWhatIs(t *testing.T) {
	other := func(h *infrav1.CapstanHost) { h.Spec.Claim.Machine, h.Spec.Claim.MachineUID = "w9", "uid-of-w9" }
	f := newFixture(t, world(claimed("host-01", other), claimed("host-02", other))...)
	f.stale = blind
	s := f.scope()
	answer, err := f.claimHost(t.Context(), s)
	if err != nil || !answer.Stopped() || s.obstacle == nil || s.host != nil ||
		s.obstacle.Reason != infrav1.NoHostMatchesReason ||
		!strings.HasPrefix(s.obstacle.Message, "0 of 2 hosts fit: 2 claimed;") {
		t.Errorf("error %v, stopped %t, obstacle %+v, host %v", err, answer.Stopped(), s.obstacle, s.host)
	}
}
