package machine

import (
	"context"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/patch"
	"github.com/capstan-dev/capstan/provider/step"
)

// providerID writes the identifier of the instance (IM-52) before the status reports the machine as provisioned
// (IM-53).
func (r *Reconciler) providerID(ctx context.Context, s *scope) (step.Answer, error) {
	if s.capstan.Spec.ProviderID != "" {
		return step.Next(), nil
	}
	before := s.capstan.DeepCopy()
	s.capstan.Spec.ProviderID = s.host.Spec.Claim.ProviderID
	if err := patch.Object(ctx, r.Client, before, s.capstan, patch.Unlocked); err != nil {
		s.capstan.Spec.ProviderID = "" // the status must not rely on an id that was not written
		return step.Answer{}, err
	}
	r.Recorder.Eventf(s.capstan, s.host, "Normal", infrav1.BootstrappedEvent, "Bootstrap",
		"host %s ran the bootstrap data", s.host.Name)
	return step.Next(), nil
}

// provisioned makes writeStatus report the machine as provisioned (IM-53), in the same patch as its addresses (IM-54)
// and failure domain (IM-55).
func (r *Reconciler) provisioned(_ context.Context, s *scope) (step.Answer, error) {
	s.done = true
	return step.Stop(), nil
}
