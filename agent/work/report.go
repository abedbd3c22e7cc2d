package work

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/agent/journal"
	"github.com/capstan-dev/capstan/agent/report"
	"github.com/capstan-dev/capstan/api/v1beta2"
)

// bootstrapReport returns the report for a claim's journal. baseline is the digest of the host's original state; step
// is the running step. Both may be empty.
func bootstrapReport(claim string, o journal.Outcome, baseline, step string) *v1beta2.BootstrapReport {
	r := &v1beta2.BootstrapReport{
		ProviderID: claim, Phase: v1beta2.BootstrapRunning, Step: report.Cut(step, report.StepLimit), Baseline: baseline,
	}
	if !o.Began.IsZero() {
		r.StartTime = metav1.NewTime(o.Began.Truncate(time.Second))
	}
	if !o.Ended {
		return r
	}
	r.Phase = v1beta2.BootstrapFailed
	if o.Succeeded {
		r.Phase = v1beta2.BootstrapSucceeded
	}
	r.Step, r.Message = report.Cut(o.Step, report.StepLimit), report.Cut(o.Message, report.MessageLimit)
	r.CompletionTime = metav1.NewTime(o.End.Truncate(time.Second))
	return r
}
