package process

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/capstan-dev/capstan/internal/backoff"
)

// Default pauses between restarts, for fields that are zero.
const (
	firstPause = 200 * time.Millisecond
	mostPause  = 10 * time.Second
	healthy    = 30 * time.Second
)

// withDefaults fills in the fields of pauses that are zero.
func withDefaults(pauses backoff.Backoff) backoff.Backoff {
	return backoff.Backoff{
		First:   cmp.Or(pauses.First, firstPause),
		Max:     cmp.Or(pauses.Max, mostPause),
		Healthy: cmp.Or(pauses.Healthy, healthy),
		Free:    pauses.Free,
		Spread:  pauses.Spread,
	}
}

// Watch is notified about a child that Keep runs. Both functions may be nil.
type Watch struct {
	// Ready is called each time the child becomes ready, including after a restart.
	Ready func()
	// Died is called after each failure, with the pause before the next start.
	Died func(err error, pause time.Duration)
}

// Keep runs the child until ctx is done and restarts it, after a pause, whenever it dies. By default, pauses start at
// 200 ms and stop growing at 10 s, and start over after the child was ready for 30 s (pauses.Healthy).
//
// If the child fails before it was ready for the first time, Keep returns that failure: it is a configuration error,
// not an accident. When Keep returns, the child has exited; nil means that ctx is done.
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
			err = errors.New("ended") // cannot happen: Run returns nil only when ctx is done
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
