package machine

import (
	"context"
	"strings"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// addHosts is the advice when Reconciler.Shortage has none.
const addHosts = "add hosts or free some; placement then retries"

// adviseOn replaces the general advice in the obstacle with that of Reconciler.Shortage, if there is any.
func (r *Reconciler) adviseOn(ctx context.Context, s *scope) {
	if r.Shortage == nil || s.obstacle.Reason != infrav1.NoHostMatchesReason {
		return
	}
	if advice := r.Shortage(ctx, s.capstan.Namespace); advice != "" {
		s.obstacle.Message = strings.Replace(s.obstacle.Message, addHosts, advice, 1)
	}
}
