package machine

import (
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
	var names []string
	for _, host := range claim.Held(list.Items, f.machine("w1")) {
		names = append(names, host.Name)
	}
	return strings.Join(names, " ")
}

func TestClaimHost(t *testing.T) { // IM-49
	trial{
		objects: worldOf(), run: (*Reconciler).claimHost, calls: []string{"list CapstanHostList", "patch CapstanHost"},
		check: func(t *testing.T, f *fixture, s *scope, answer step.Answer) {
			if got := f.held(); got != "host-01" || s.host == nil || s.host.Name != got || answer.Stopped() {
				t.Errorf("holds %q, found %v, stopped %t", got, s.host, answer.Stopped())
			}
		},
	}.do(t)
}

// TestClaimIsForMachinesThatNeverHadAHost: a second instance would be one too many (IM-63).
func TestClaimIsForMachinesThatNeverHadAHost(t *testing.T) {
	for name, edit := range map[string]change{
		"it holds one":         claimed("host-02"),
		"its status names one": machineIs(func(m *infrav1.CapstanMachine) { m.Status.Host = "host-09" }),
		"it has a provider id": machineIs(func(m *infrav1.CapstanMachine) { m.Spec.ProviderID = "capstan://a/b/c" }),
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

// TestAClaimWhoseAnswerWasLostIsFound: the cache doesn't show it yet, the API server does.
func TestAClaimWhoseAnswerWasLostIsFound(t *testing.T) {
	f := newFixture(t, world()...)
	f.stale = blind
	s := f.scope()
	f.fault = onCall(2, fault{err: errInjected, effect: true})
	if _, err := f.claimHost(t.Context(), s); err == nil || s.host != nil {
		t.Fatalf("error %v, host %v", err, s.host)
	}
	f.fault = nil
	again := f.scope()
	again.host, again.extra = nil, nil // as the cache has it
	if _, err := f.claimHost(t.Context(), again); err != nil || again.host == nil || f.held() != "host-01" {
		t.Errorf("error %v, found %v, holds %q", err, again.host, f.held())
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
		"once":                   {err: changed, times: 1},
		"it was deleted":         {err: apierrors.NewNotFound(resource, "host-01"), times: 1},
		"as often as is allowed": {err: changed, times: claimTries - 1},
		"too often":              {err: changed, times: claimTries, fails: true},
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

// TestClaimDecidesOnWhatIs: what the cache shows as free may be taken.
func TestClaimDecidesOnWhatIs(t *testing.T) {
	other := func(h *infrav1.CapstanHost) { h.Spec.Claim.Machine, h.Spec.Claim.MachineUID = "w9", "uid-of-w9" }
	f := newFixture(t, world(claimed("host-01", other), claimed("host-02", other))...)
	s := f.scope()
	blind(&infrav1.CapstanHostList{Items: s.hosts})
	answer, err := f.claimHost(t.Context(), s)
	if err != nil || !answer.Stopped() || s.obstacle == nil || s.host != nil ||
		s.obstacle.Reason != infrav1.NoHostMatchesReason {
		t.Errorf("error %v, stopped %t, obstacle %+v, host %v", err, answer.Stopped(), s.obstacle, s.host)
	}
}
