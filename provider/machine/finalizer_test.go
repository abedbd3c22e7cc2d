package machine

import (
	"slices"
	"testing"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/step"
)

func TestFinalizer(t *testing.T) { // IM-44
	isThere := func(t *testing.T, f *fixture, _ *scope, answer step.Answer) {
		if got := f.machine("w1").Finalizers; !slices.Equal(got, []string{infrav1.MachineFinalizer}) || answer.Stopped() {
			t.Errorf("finalizers %v, stopped %t", got, answer.Stopped())
		}
	}
	trial{objects: worldOf(), run: (*Reconciler).finalizer, check: isThere, calls: []string{"patch CapstanMachine"}}.do(t)
	has := machineIs(func(m *infrav1.CapstanMachine) { m.Finalizers = []string{infrav1.MachineFinalizer} })
	again := trial{objects: worldOf(has), run: (*Reconciler).finalizer, check: isThere}
	t.Run("a finalizer that is there is not written again", again.do)
	t.Attr("rule", "IM-44 v1beta2")
}

func TestHeldByUs(t *testing.T) {
	for name, c := range map[string]struct {
		finalizers []string
		held       bool
	}{
		"our finalizer and another one": {[]string{"example.com/other", infrav1.MachineFinalizer}, true},
		"somebody else's finalizer":     {[]string{"example.com/other"}, false},
		"no finalizer":                  {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := &infrav1.CapstanMachine{}
			m.Finalizers = c.finalizers
			s := &scope{capstan: m}
			answer, err := (&Reconciler{}).heldByUs(t.Context(), s)
			if err != nil || answer.Stopped() == c.held || s.gone == c.held {
				t.Errorf("stopped %t, gone %t, error %v", answer.Stopped(), s.gone, err)
			}
		})
	}
}

func TestRemoveFinalizer(t *testing.T) { // IM-60, IM-61
	trial{
		objects: worldOf(deleted), run: (*Reconciler).removeFinalizer, calls: []string{"patch CapstanMachine"},
		check: func(t *testing.T, f *fixture, s *scope, answer step.Answer) {
			if f.machine("w1") != nil || !s.gone || !answer.Stopped() {
				t.Errorf("machine %v, gone %t, stopped %t", f.machine("w1"), s.gone, answer.Stopped())
			}
		},
	}.do(t)
	t.Attr("rule", "IM-60 v1beta2")
	t.Attr("rule", "IM-61 v1beta2")
}
