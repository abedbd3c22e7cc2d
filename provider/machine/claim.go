package machine

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/capstan-dev/capstan/provider/claim"
	"github.com/capstan-dev/capstan/provider/handover"
	"github.com/capstan-dev/capstan/provider/patch"
	"github.com/capstan-dev/capstan/provider/step"
)

// claimTries bounds how often another host is tried in one pass when a host changes while it is being claimed.
const claimTries = 5

// claimHost claims a host for a machine that never had one.
//
// A claim is one update of one object that fails if the object changed, so a host has at most one claimant. That a
// machine has at most one host rests on looking at the API server, not at the cache, for an earlier claim whose answer
// was lost.
func (r *Reconciler) claimHost(ctx context.Context, s *scope) (step.Answer, error) {
	if s.host != nil || hadHost(s.capstan) != "" {
		return step.Next(), nil
	}
	r.claiming.Lock()
	defer r.claiming.Unlock()
	for range claimTries {
		hosts, err := r.hosts(ctx, r.Reader, s)
		if err != nil {
			return step.Answer{}, err
		}
		if s.hold(claim.Held(hosts, s.capstan)); s.host != nil {
			return step.Next(), nil
		}
		host, obstacle := planClaim(s, hosts)
		if obstacle != nil {
			s.obstacle = obstacle
			return step.Stop(), nil
		}
		before := host.DeepCopy()
		host.Spec.Claim = claim.New(host, s.capstan, s.machine)
		handover.Mark(host)
		switch err := patch.Object(ctx, r.Client, before, host, patch.Locked); {
		case err == nil:
			s.host = host
			r.Recorder.Eventf(s.capstan, host, "Normal", "HostClaimed", "Claim", "claimed host %s in zone %s", host.Name, host.Spec.Zone)
			return step.Next(), nil
		case !apierrors.IsConflict(err) && !apierrors.IsNotFound(err):
			return step.Answer{}, fmt.Errorf("claiming host %s: %w", host.Name, err)
		}
	}
	return step.Answer{}, fmt.Errorf("hosts changed %d times while one was being claimed: another try follows", claimTries)
}
