package transition

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

func TestDecide(t *testing.T) {
	ready := &metav1.Condition{Status: metav1.ConditionTrue, Reason: infrav1.ReadyReason}
	inUse := &metav1.Condition{Status: metav1.ConditionTrue, Reason: infrav1.InUseReason}
	no := func(reason, message string) *metav1.Condition {
		return &metav1.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: message}
	}
	for name, c := range map[string]struct {
		before, after *metav1.Condition
		want          string
	}{
		"the first trouble":              {nil, no(infrav1.NoHostMatchesReason, "0 of 1 host fits"), "Warning NoHostMatches 0 of 1 host fits"},
		"trouble after work":             {ready, no(infrav1.HostOfflineReason, "no heartbeat"), "Warning HostOffline no heartbeat"},
		"one trouble after another":      {no(infrav1.HostOfflineReason, "x"), no(infrav1.HostGoneReason, "gone"), "Warning HostGone gone"},
		"the same trouble in new words":  {no(infrav1.NoHostMatchesReason, "0 of 1"), no(infrav1.NoHostMatchesReason, "0 of 2"), ""},
		"trouble is over":                {no(infrav1.HostOfflineReason, "x"), inUse, "Normal Ready ready again after HostOffline"},
		"a step on the way":              {nil, no(infrav1.WaitingForBootstrapDataReason, "x"), ""},
		"trouble is over, a step begins": {no(infrav1.NoHostMatchesReason, "x"), no(infrav1.BootstrappingReason, "x"), ""},
		"ready at the end":               {no(infrav1.BootstrappingReason, "x"), ready, ""},
		"nothing is known":               {ready, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			kind, reason, note := decide(c.before, c.after)
			got := kind
			if kind != "" {
				got += " " + reason + " " + note
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
