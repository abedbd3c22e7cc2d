//go:build linux

package initd

import (
	"time"

	"github.com/capstan-dev/capstan/dock/unit"
	"github.com/capstan-dev/capstan/internal/backoff"
)

// restartPauses are the pauses before restarts of a unit: as the unit says, and longer when it stops again and again.
func restartPauses(u *unit.Unit) backoff.Backoff {
	return backoff.Backoff{
		First: max(u.RestartPause, 10*time.Millisecond), Max: max(u.RestartPause, maxRestartDelay), Free: freeRestarts,
	}
}
