//go:build linux

package initd

import (
	"time"

	"github.com/capstan-dev/capstan/dock/unit"
	"github.com/capstan-dev/capstan/internal/backoff"
)

// restartPauses returns the pauses before restarts: first the unit's own, then longer ones if it keeps failing.
func restartPauses(u *unit.Unit) backoff.Backoff {
	return backoff.Backoff{
		First: max(u.RestartPause, 10*time.Millisecond), Max: max(u.RestartPause, maxRestartDelay), Free: freeRestarts,
	}
}
