// Package backoff spaces out attempts with pauses that double up to a limit and can be interrupted.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Defaults for fields of [Backoff] that are zero.
const (
	DefaultFirst = 500 * time.Millisecond
	DefaultMax   = 30 * time.Second
)

// FleetSpread is the [Backoff.Spread] for attempts that many hosts make at one server.
const FleetSpread = 0.2

// Backoff computes the pauses between attempts at the same thing. The zero value starts at half a second, doubles, and
// stops growing at 30 seconds. It is not safe for concurrent use.
type Backoff struct {
	// First is the pause after the first failure. Default: [DefaultFirst].
	First time.Duration
	// Max limits a pause, but no pause is shorter than First. Default: [DefaultMax].
	Max time.Duration
	// Free is how many failures after the first one are also followed by the pause First. Pauses grow after that.
	Free int
	// Healthy is how long a run must have lasted for its failure to count as the first failure: see [Backoff.After].
	// Default: Max.
	Healthy time.Duration
	// Spread varies each pause at random by up to this fraction, so that a thousand hosts do not return at the same
	// instant.
	Spread float64

	failures int
}

// Next returns the pause after another failure.
func (b *Backoff) Next() time.Duration {
	first, most := b.First, b.Max
	if first <= 0 {
		first = DefaultFirst
	}
	if most <= 0 {
		most = DefaultMax
	}
	b.failures++
	pause := first
	for i := b.Free + 1; i < b.failures && pause < most; i++ {
		pause *= 2
	}
	return Jitter(min(pause, max(most, first)), b.Spread)
}

// After returns the pause after a run; ran is how long the run lasted. A run longer than Healthy resets the pauses.
func (b *Backoff) After(ran time.Duration) time.Duration {
	healthy := b.Healthy
	if healthy <= 0 {
		healthy = b.Max
	}
	if healthy <= 0 {
		healthy = DefaultMax
	}
	if ran > healthy {
		b.Reset()
	}
	return b.Next()
}

// Reset makes the next pause the first one again, for use after a success.
func (b *Backoff) Reset() { b.failures = 0 }

// Wait pauses for [Backoff.Next]. It returns ctx's error if ctx is done first.
func (b *Backoff) Wait(ctx context.Context) error { return Sleep(ctx, b.Next()) }

// Jitter returns a duration between (1-share)·d and (1+share)·d.
func Jitter(d time.Duration, share float64) time.Duration {
	if share == 0 {
		return d
	}
	return d + time.Duration(float64(d)*share*(2*rand.Float64()-1))
}

// Sleep waits until d has passed or ctx is done, whichever comes first. It returns ctx's error.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return ctx.Err()
}
