package work

import (
	"testing"
	"time"

	"github.com/capstan-dev/capstan/agent/journal"
	"github.com/capstan-dev/capstan/api/v1beta2"
)

func TestBootstrapReport(t *testing.T) {
	began := time.Date(2026, 11, 1, 12, 0, 0, 5, time.UTC)
	end := began.Add(time.Minute)
	for name, c := range map[string]struct {
		outcome journal.Outcome
		step    string
		want    v1beta2.BootstrapReport
	}{
		"not begun": {journal.Outcome{}, "bundle", v1beta2.BootstrapReport{Phase: v1beta2.BootstrapRunning, Step: "bundle"}},
		"failed": {
			journal.Outcome{Began: began, Ended: true, End: end, Step: "users", Message: "why"}, "",
			v1beta2.BootstrapReport{Phase: v1beta2.BootstrapFailed, Step: "users", Message: "why"},
		},
		"succeeded": {
			journal.Outcome{Began: began, Ended: true, End: end, Succeeded: true}, "",
			v1beta2.BootstrapReport{Phase: v1beta2.BootstrapSucceeded},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := bootstrapReport("p", c.outcome, "", c.step)
			if got.ProviderID != "p" || got.Phase != c.want.Phase || got.Step != c.want.Step || got.Message != c.want.Message {
				t.Errorf("got %+v", got)
			}
			if got.StartTime.IsZero() != c.outcome.Began.IsZero() || got.StartTime.Nanosecond() != 0 {
				t.Errorf("the bootstrap began at %s", got.StartTime)
			}
			if got.CompletionTime.IsZero() == c.outcome.Ended {
				t.Errorf("the bootstrap ended at %s", got.CompletionTime)
			}
		})
	}
}
