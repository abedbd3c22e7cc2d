package machine

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/step"
)

func TestReport(t *testing.T) {
	known := machineIs(func(m *infrav1.CapstanMachine) {
		m.Status.Conditions = []metav1.Condition{{
			Type: infrav1.BootstrappedCondition, Status: metav1.ConditionFalse, Reason: infrav1.BootstrapFailedReason,
			LastTransitionTime: metav1.Now(),
		}}
	})
	id := machineIs(func(m *infrav1.CapstanMachine) { m.Spec.ProviderID = "capstan://a/b/c" })
	nobody := func(h *infrav1.CapstanHost) { h.Status.Agent = nil }
	ends := []string{"get Secret", "delete Secret"}
	for name, c := range map[string]struct {
		host  func(*infrav1.CapstanHost)
		edit  change
		stops bool
		left  bool // whether the data is left
		event string
		calls []string
	}{
		"nothing is reported yet": {host: nobody, stops: true, left: true},
		"the bootstrap runs":      {host: reported(infrav1.BootstrapRunning), stops: true, left: true},
		"the bootstrap succeeded": {host: reported(infrav1.BootstrapSucceeded), calls: ends},
		"the bootstrap failed (IM-50)": {
			host: reported(infrav1.BootstrapFailed), stops: true, calls: ends,
			event: "failed on host host-01 at runcmd 1/2: exit code 1",
		},
		"a failure that is known": {
			host: reported(infrav1.BootstrapFailed), edit: known, stops: true, left: true,
		},
		"the machine has an instance, and the report is lost (IM-63)": {host: nobody, edit: id, left: true},
	} {
		t.Run(name, func(t *testing.T) {
			edits := []change{claimed("host-01", c.host), deliveredTo("host-01")}
			if c.edit != nil {
				edits = append(edits, c.edit)
			}
			trial{
				objects: worldOf(edits...), run: (*Reconciler).report, calls: c.calls,
				with: func(f *fixture, s *scope) { s.host = f.host("host-01") },
				check: func(t *testing.T, f *fixture, _ *scope, answer step.Answer) {
					left := get(f, "host-01"+infrav1.BootstrapSecretSuffix, &corev1.Secret{}) != nil
					if answer.Stopped() != c.stops || left != c.left {
						t.Errorf("stopped %t, the data is left: %t", answer.Stopped(), left)
					}
					if got := said(f); !strings.Contains(got, c.event) || (got == "") != (c.event == "") {
						t.Errorf("event %q, want %q", got, c.event)
					}
				},
			}.do(t)
		})
	}
}

// said returns the Events so far, and clears them.
func said(f *fixture) string {
	var all []string
	recorder := f.Recorder.(*events.FakeRecorder)
	for len(recorder.Events) > 0 {
		all = append(all, <-recorder.Events)
	}
	return strings.Join(all, "\n")
}
