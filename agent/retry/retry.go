// Package retry spaces out attempts: pauses that double, have a bound, and differ from host to host.
package retry

import (
	"context"
	"math/rand/v2"
	"time"
)

// Pauses are the pauses between attempts at one thing. The zero value starts at half a second and ends at 30 seconds.
type Pauses struct {
	// First is the pause after the first failure; default 500 ms.
	First time.Duration
	// Most bounds a pause; default 30 s.
	Most time.Duration

	last time.Duration
}

// Reset is called after a success: the next pause is the first one again.
func (p *Pauses) Reset() { p.last = 0 }

// Next returns the pause after one more failure, give or take a fifth, so that a thousand hosts don't come back in the same instant.
func (p *Pauses) Next() time.Duration {
	first, most := p.First, p.Most
	if first <= 0 {
		first = 500 * time.Millisecond
	}
	if most <= 0 {
		most = 30 * time.Second
	}
	if p.last == 0 {
		p.last = first
	} else {
		p.last *= 2
	}
	p.last = min(p.last, most)
	return Jitter(p.last, 0.2)
}

// Wait pauses as Next says. It returns ctx's error if ctx ended first.
func (p *Pauses) Wait(ctx context.Context) error { return Sleep(ctx, p.Next()) }

// Jitter returns a duration between (1-share)·d and (1+share)·d.
func Jitter(d time.Duration, share float64) time.Duration {
	return d + time.Duration(float64(d)*share*(2*rand.Float64()-1))
}

// Sleep waits for d or the end of ctx, and returns ctx's error.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return ctx.Err()
}
