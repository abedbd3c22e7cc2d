package machine

import (
	"context"

	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/bootstrapdata"
	"github.com/capstan-dev/capstan/provider/claim"
	"github.com/capstan-dev/capstan/provider/readyevent"
	"github.com/capstan-dev/capstan/provider/step"
)

// report waits for the result of the bootstrap and then deletes the data that the host can read, whether the bootstrap
// succeeded or failed. A machine with a provider id is past this step: the id is written only after success. Unlike the
// report, the id survives a move to another management cluster (IM-63).
func (r *Reconciler) report(ctx context.Context, s *scope) (step.Answer, error) {
	if s.capstan.Spec.ProviderID != "" {
		return step.Next(), nil
	}
	report := claim.Bootstrap(s.host)
	if report == nil || report.Phase == infrav1.BootstrapRunning {
		return step.Stop(), nil
	}
	failedBefore := conditions.GetReason(s.capstan, infrav1.BootstrappedCondition) == infrav1.BootstrapFailedReason
	if failedBefore {
		return r.replace(ctx, s)
	}
	if err := bootstrapdata.Remove(ctx, r.Reader, r.Client, s.host, s.host.Spec.Claim.ProviderID); err != nil {
		return step.Answer{}, err
	}
	if report.Phase == infrav1.BootstrapFailed {
		// The failure is final (IM-50): the data may contain a token that is used up, and a partial bootstrap can't be
		// resumed.
		note := readyevent.Note(bootstrapFailure(s.host.Name, report))
		r.Recorder.Eventf(s.capstan, s.host, "Warning", infrav1.BootstrapFailedEvent, "Bootstrap", "%s", note)
		return r.replace(ctx, s)
	}
	r.replacing.succeeded(groupOf(s.machine))
	return step.Next(), nil
}
