package machine

import (
	"context"

	"github.com/capstan-dev/capstan/provider/bootstrapdata"
	"github.com/capstan-dev/capstan/provider/delta"
	"github.com/capstan-dev/capstan/provider/step"
)

// deliver puts the bootstrap data where the host's agent may read it, then says so in the claim.
func (r *Reconciler) deliver(ctx context.Context, s *scope) (step.Answer, error) {
	if s.host.Spec.Claim.BootstrapReady || s.capstan.Spec.ProviderID != "" {
		return step.Next(), nil
	}
	if err := r.loadData(ctx, s); err != nil {
		return step.Answer{}, err
	}
	if err := bootstrapdata.Deliver(ctx, r.Reader, r.Client, s.host, s.data); err != nil {
		return step.Answer{}, err
	}
	before := s.host.DeepCopy()
	s.host.Spec.Claim.BootstrapReady = true
	return step.Next(), delta.Patch(ctx, r.Client, before, s.host, delta.Locked)
}
