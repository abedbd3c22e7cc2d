package machine

import (
	"context"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/bootstrapdata"
	"github.com/capstan-dev/capstan/provider/claim"
	"github.com/capstan-dev/capstan/provider/pace"
	"github.com/capstan-dev/capstan/provider/patch"
	"github.com/capstan-dev/capstan/provider/step"
)

// deliver puts the bootstrap data where the host's agent may read it. The claim already lets the agent start, and the
// agent waits for the data. So until the agent has reported the result, every pass checks that the data is there.
func (r *Reconciler) deliver(ctx context.Context, s *scope) (step.Answer, error) {
	report := claim.Bootstrap(s.host)
	if s.capstan.Spec.ProviderID != "" || report != nil && report.Phase != infrav1.BootstrapRunning {
		return step.Next(), nil
	}
	there, err := bootstrapdata.Delivered(ctx, r.Reader, s.host)
	if err != nil {
		return step.Answer{}, err
	}
	if !there {
		if wait := r.Pace.Ask(pace.Deliver, s.host.UID); wait > 0 {
			return step.StopFor(wait), nil
		}
		if err := r.loadData(ctx, s); err != nil {
			return step.Answer{}, err
		}
		if err := bootstrapdata.Deliver(ctx, r.Reader, r.Client, s.host, s.data); err != nil {
			return step.Answer{}, err
		}
	}
	if s.host.Spec.Claim.BootstrapReady {
		return step.Next(), nil
	}
	before := s.host.DeepCopy() // earlier versions set this after the claim
	s.host.Spec.Claim.BootstrapReady = true
	return step.Next(), patch.Object(ctx, r.Client, before, s.host, patch.Locked)
}
