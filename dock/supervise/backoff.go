package supervise

import "time"

// Backoff gives the delay before each restart: First for the first few in a row, then doubled each time up to Max. A run that
// lasted longer than Healthy begins anew.
type Backoff struct {
	First   time.Duration
	Max     time.Duration
	Free    int           // restarts at First, after the first one, before delays grow
	Healthy time.Duration // 0 means Max

	failures int
}

// Next says how long to wait before the next start, after a run that lasted ran.
func (b *Backoff) Next(ran time.Duration) time.Duration {
	healthy := b.Healthy
	if healthy == 0 {
		healthy = b.Max
	}
	if ran > healthy {
		b.failures = 0
	}
	b.failures++
	delay := b.First
	for i := b.Free + 1; i < b.failures && delay < b.Max; i++ {
		delay *= 2
	}
	return min(delay, max(b.Max, b.First))
}

// Reset begins anew, as when a person asks for a start.
func (b *Backoff) Reset() { b.failures = 0 }
