package process

import (
	"context"
	"errors"
	"time"
)

// Backoff says how long to pause before a child that died is started again.
type Backoff struct {
	// First is the pause after the first death; default 200 ms. Each further one doubles it.
	First time.Duration
	// Most bounds the pause; default 10 s.
	Most time.Duration
	// Reset is how long a child must have been ready for its death to count as a first one; default 30 s.
	Reset time.Duration
}

// next returns the pause before a restart: last is the pause before the one that died now, lived how long that one was ready.
func (b Backoff) next(last, lived time.Duration) time.Duration {
	if b.First <= 0 {
		b.First = 200 * time.Millisecond
	}
	if b.Most <= 0 {
		b.Most = 10 * time.Second
	}
	if b.Reset <= 0 {
		b.Reset = 30 * time.Second
	}
	if last == 0 || lived >= b.Reset {
		return min(b.First, b.Most)
	}
	return min(2*last, b.Most)
}

// Watch is told what happens to a child that is kept. Both functions may be nil.
type Watch struct {
	// Ready is called each time the child is ready, also after a restart.
	Ready func()
	// Died is called with each failure, and the pause before the next start.
	Died func(err error, pause time.Duration)
}

// Keep runs the child until ctx ends and starts it again, after a pause, whenever it dies.
//
// A failure before the child was ready for the first time is returned: it is a mistake in the setting, not an accident. When Keep returns
// there is no child any more; nil means that ctx ended.
func (p Process) Keep(ctx context.Context, backoff Backoff, watch Watch) error {
	everReady := false
	var pause time.Duration
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
		pause = backoff.next(pause, lived)
		if watch.Died != nil {
			watch.Died(err, pause)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}
