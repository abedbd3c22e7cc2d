package host

import (
	"context"

	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/epoch"
	"github.com/capstan-dev/capstan/provider/step"
)

// epoch makes sure that the agent can get a token of the host's current epoch. Once the agent reports such a token,
// epoch invalidates the tokens of the previous epoch. Until then the host can't be claimed, because the pass fails or
// Ready is False. So apart from the current epoch, only the previous one can have valid tokens.
func (r *Reconciler) epoch(ctx context.Context, s *scope) (step.Answer, error) {
	if !needsIdentity(s.host) || s.taken {
		return step.Next(), nil
	}
	err := r.beginEpoch(ctx, s.host)
	if s.takes(err) {
		return step.Next(), nil
	}
	if err != nil {
		return step.Answer{}, err
	}
	known := r.identityOf(s.host)
	now := s.host.Spec.Epoch
	if s.host.Spec.Supplier != "" || now == 0 || known.ended && known.endedEpoch == now || !reportsEpoch(s.host) {
		return step.Next(), nil
	}
	if err := epoch.End(ctx, r.Reader, r.Client, s.host, now-1); err != nil {
		return step.Answer{}, err
	}
	r.noteIdentity(s.host, func(known *identityState) { known.ended, known.endedEpoch = true, now })
	return step.Next(), nil
}

// beginEpoch makes sure that the Secret of the host's current epoch exists. It checks once per process, and again while
// the agent is silent, because somebody may have deleted the Secret to invalidate the tokens.
func (r *Reconciler) beginEpoch(ctx context.Context, host *infrav1.CapstanHost) error {
	silent := conditions.GetReason(host, infrav1.HostOnlineCondition) == infrav1.HostOfflineReason
	known := r.identityOf(host)
	if known.begun && known.begunEpoch == host.Spec.Epoch && !silent {
		return nil
	}
	if err := epoch.Begin(ctx, r.Reader, r.Client, host); err != nil {
		return err
	}
	r.noteIdentity(host, func(known *identityState) { known.begun, known.begunEpoch = true, host.Spec.Epoch })
	return nil
}

// reportsEpoch reports whether the agent says that it has a token of the current epoch.
func reportsEpoch(host *infrav1.CapstanHost) bool {
	agent := host.Status.Agent
	return agent != nil && agent.Epoch != nil && *agent.Epoch == host.Spec.Epoch
}

// endEpochs invalidates all tokens of a host that is being deleted.
func (r *Reconciler) endEpochs(ctx context.Context, host *infrav1.CapstanHost) error {
	for n := max(0, host.Spec.Epoch-1); n <= host.Spec.Epoch; n++ {
		if err := epoch.End(ctx, r.Reader, r.Client, host, n); err != nil {
			return err
		}
	}
	return nil
}
