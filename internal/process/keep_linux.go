package process

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/capstan-dev/capstan/internal/backoff"
)

// Defaults of the pauses between restarts, for fields that are zero.
const (
	firstPause = 200 * time.Millisecond
	mostPause  = 10 * time.Second
	healthy    = 30 * time.Second
)

// withDefaults fills what pauses leaves open.
func withDefaults(pauses backoff.Backoff) backoff.Backoff {
	return backoff.Backoff{
		First:   cmp.Or(pauses.First, firstPause),
		Max:     cmp.Or(pauses.Max, mostPause),
		Healthy: cmp.Or(pauses.Healthy, healthy),
		Free:    pauses.Free,
		Spread:  pauses.Spread,
	}
}

// Watch is told what happens to a child that is kept. Both functions may be nil.
type Watch struct {
	// Ready is called each time the child is ready, also after a restart.
	Ready func()
	// Died is called with each failure, and the pause before the next start.
	Died func(err error, pause time.Duration)
}

// Keep runs the child until ctx ends and starts it again, after a pause, whenever it dies. Pauses start at 200 ms and
// stay below 10 s unless pauses says otherwise; a child that was ready for 30 s (pauses.Healthy) begins anew.
//
// A failure before the child was ready for the first time is returned: it is a mistake in the setting, not an
// accident. When Keep returns there is no child any more; nil means that ctx ended.
func (p Process) Keep(ctx context.Context, pauses backoff.Backoff, watch Watch) error {
	pauses = withDefaults(pauses)
	everReady := false
	for {
		var since time.Time
		err := p.Run(ctx, func() {
			since, everReady = time.Now(), true
			if watch.Ready != nil {
				watch.Ready()
			}
		})
		if ctx.Err() != nil {
			return nil
		}
		if !everReady {
			return err
		}
		if err == nil {
			err = errors.New("ended") // cannot happen: Run returns nil only when ctx ended
		}
		var lived time.Duration
		if !since.IsZero() {
			lived = time.Since(since)
		}
		pause := pauses.After(lived)
		if watch.Died != nil {
			watch.Died(err, pause)
		}
		if backoff.Sleep(ctx, pause) != nil {
			return nil
		}
	}
}
