package machine

import (
	"context"
	"errors"
	"fmt"

	"github.com/capstan-dev/capstan/provider/step"
)

// keep keeps the first of the hosts that the machine holds and releases the others. It ends the pass if none can be
// used, and claims no other host: the lost host may still run the instance, and there must not be two (IM-63).
func (r *Reconciler) keep(ctx context.Context, s *scope) (step.Answer, error) {
	if s.host == nil {
		s.lost = fmt.Sprintf("%s no longer has this machine's claim: delete the Machine to get another host",
			hadHost(s.capstan))
		return step.Stop(), nil
	}
	var errs []error
	for _, extra := range s.extra {
		errs = append(errs, r.releaseHost(ctx, extra))
	}
	if err := errors.Join(errs...); err != nil {
		return step.Answer{}, err
	}
	if s.host.Spec.Claim.Released {
		s.lost = fmt.Sprintf("host %s was released from this machine: delete the Machine to get another host", s.host.Name)
		s.host = nil
		return step.Stop(), nil
	}
	return step.Next(), nil
}
