package machine

import (
	"context"
	"strings"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// addHosts is what to do where nobody knows better.
const addHosts = "add hosts or free some, then placement is tried again"

// adviseOn says what happens next, or what to do, when the namespace lacks hosts that it shares with others.
func (r *Reconciler) adviseOn(ctx context.Context, s *scope) {
	if r.Shortage == nil || s.obstacle.Reason != infrav1.NoHostMatchesReason {
		return
	}
	if advice := r.Shortage(ctx, s.capstan.Namespace); advice != "" {
		s.obstacle.Message = strings.Replace(s.obstacle.Message, addHosts, advice, 1)
	}
}
