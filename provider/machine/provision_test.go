package machine

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/step"
)

func TestProviderID(t *testing.T) { // IM-52
	claims := claimed("host-01", reported(infrav1.BootstrapSucceeded))
	const want = "capstan://default/host-01/uid-of-w"
	isThere := func(t *testing.T, f *fixture, s *scope, answer step.Answer) {
		if got := f.machine("w1").Spec.ProviderID; got != want || s.capstan.Spec.ProviderID != got || answer.Stopped() {
			t.Errorf("provider id %q, in the scope %q, stopped %t", got, s.capstan.Spec.ProviderID, answer.Stopped())
		}
	}
	trial{
		objects: worldOf(claims), run: (*Reconciler).providerID, check: isThere, calls: []string{"patch CapstanMachine"},
	}.do(t)
	has := func(all map[string]client.Object) {
		all["machine"].(*infrav1.CapstanMachine).Spec.ProviderID = all["host-01"].(*infrav1.CapstanHost).Spec.Claim.ProviderID
	}
	again := trial{objects: worldOf(claims, has), run: (*Reconciler).providerID, check: isThere}
	t.Run("a provider id that is there is not written again", again.do)
	t.Attr("rule", "IM-52 v1beta2")
}

// TestProviderIDThatWasNotWritten checks that nothing in the same pass relies on a provider id that was not written
// (IM-53).
func TestProviderIDThatWasNotWritten(t *testing.T) {
	f := newFixture(t, world(claimed("host-01", reported(infrav1.BootstrapSucceeded)))...)
	f.fault = named("patch CapstanMachine", errInjected)
	s := f.scope()
	if _, err := f.providerID(t.Context(), s); err == nil || s.capstan.Spec.ProviderID != "" {
		t.Errorf("error %v, provider id %q", err, s.capstan.Spec.ProviderID)
	}
	t.Attr("rule", "IM-53 v1beta2")
}

func TestProvisioned(t *testing.T) { // IM-53
	s := &scope{}
	if answer, err := (&Reconciler{}).provisioned(t.Context(), s); err != nil || !answer.Stopped() || !s.done {
		t.Errorf("done %t, stopped %t, error %v", s.done, answer.Stopped(), err)
	}
}
