package readyevent

import (
	"strings"
	"testing"
	"unicode/utf8"

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
		"the first obstacle": {nil, no(infrav1.NoHostMatchesReason, "0 of 1"), "Warning NoHostMatches 0 of 1"},
		"an obstacle after Ready was True": {ready, no(infrav1.HostOfflineReason, "no heartbeat"),
			"Warning HostOffline no heartbeat"},
		"one obstacle after another": {
			no(infrav1.HostOfflineReason, "x"), no(infrav1.HostGoneReason, "gone"), "Warning HostGone gone",
		},
		"a reconcile that fails": {ready, no(infrav1.StepFailedReason, "boom"), "Warning StepFailed boom"},
		"a refused right":        {nil, no(infrav1.AccessDeniedReason, "forbidden"), "Warning AccessDenied forbidden"},
		"the same obstacle in new words": {
			no(infrav1.NoHostMatchesReason, "0 of 1"), no(infrav1.NoHostMatchesReason, "0 of 2"), "",
		},
		"the obstacle is gone": {no(infrav1.HostOfflineReason, "x"), inUse,
			"Normal Ready ready again after HostOffline"},
		"an intermediate state": {nil, no(infrav1.WaitingForBootstrapDataReason, "x"), ""},
		"an intermediate state after an obstacle": {
			no(infrav1.NoHostMatchesReason, "x"), no(infrav1.BootstrappingReason, "x"), "",
		},
		"ready after an intermediate state": {no(infrav1.BootstrappingReason, "x"), ready, ""},
		"the condition is gone":             {ready, nil, ""},
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

func TestNote(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "short": "a word", "just right": strings.Repeat("x", maxNote)} {
		if got := Note(text); got != text {
			t.Errorf("%s: the text was changed to %q", name, got)
		}
	}
	for shift := range 4 {
		text := strings.Repeat("x", shift) + strings.Repeat("€", maxNote)
		if got := Note(text); len(got) > maxNote || len(got) < maxNote-6 || !utf8.ValidString(got) ||
			!strings.HasSuffix(got, "…") {
			t.Errorf("a long text: %d bytes, %q", len(got), got[len(got)-8:])
		}
	}
}
