package host

import (
	"context"

	"sigs.k8s.io/cluster-api/util/annotations"

	"github.com/capstan-dev/capstan/provider/pause"
	"github.com/capstan-dev/capstan/provider/step"
)

// pause ends the pass if the host has the annotation cluster.x-k8s.io/paused. A paused Cluster does not pause hosts,
// because no Cluster owns them.
func (r *Reconciler) pause(_ context.Context, s *scope) (step.Answer, error) {
	if annotations.HasPaused(s.host) {
		s.paused = pause.Why(nil, s.host)
		return step.Stop(), nil
	}
	return step.Next(), nil
}
