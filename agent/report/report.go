// Package report keeps status.agent of a host up to date: it sends the report after each change, and sends it again
// until the API server has the report.
package report

import (
	"context"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/backoff"
)

const (
	// reportPause is the minimum time between two reports of progress. Results don't wait.
	reportPause = 400 * time.Millisecond
	// repeatPause is the minimum time before a report is sent again because the API server shows another one.
	repeatPause = 3 * time.Second
)

// Apply sends a report to the API server.
type Apply func(context.Context, *v1beta2.AgentReport) error

// Reporter holds and sends the report of one agent. Its methods are safe for concurrent use.
type Reporter struct {
	apply Apply
	log   *slog.Logger

	mu     sync.Mutex
	report v1beta2.AgentReport
	dirty  bool          // the report has changed since it was sent
	lost   bool          // the API server shows another report
	urgent bool          // the report must not wait
	last   time.Time     // the time of the last report
	wake   chan struct{} // holds at most one value
}

// New returns a Reporter with an empty report. Run sends the report.
func New(apply Apply, log *slog.Logger) *Reporter {
	return &Reporter{apply: apply, log: log, wake: make(chan struct{}, 1)}
}

// Update changes the report. If that makes a difference, the report is sent, immediately if urgent.
func (r *Reporter) Update(urgent bool, change func(*v1beta2.AgentReport)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.report.DeepCopy()
	change(&r.report)
	if !reflect.DeepEqual(before, &r.report) {
		r.set(urgent)
	}
}

// Get returns a copy of the current report.
func (r *Reporter) Get() v1beta2.AgentReport {
	r.mu.Lock()
	defer r.mu.Unlock()
	return *r.report.DeepCopy()
}

// set marks the report to be sent. The caller holds the lock.
func (r *Reporter) set(urgent bool) {
	r.dirty = true
	r.urgent = r.urgent || urgent
	r.poke()
}

func (r *Reporter) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Seen compares the report with what the API server shows, because moving a host to another management cluster drops
// its status. What a watch shows may be older than the last report, so the report is sent again only after a moment.
func (r *Reporter) Seen(shown *v1beta2.AgentReport) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = shown == nil || shown.BootID != r.report.BootID || !sameBootstrap(shown.Bootstrap, r.report.Bootstrap) ||
		!sameCleaning(shown.Cleaning, r.report.Cleaning) ||
		!sameHandOver(shown.HandOver, r.report.HandOver) || !sameEpoch(shown.Epoch, r.report.Epoch)
	if r.lost {
		r.poke()
	}
}

func sameBootstrap(a, b *v1beta2.BootstrapReport) bool {
	return (a == nil) == (b == nil) && (a == nil || a.ProviderID == b.ProviderID && a.Phase == b.Phase)
}

func sameCleaning(a, b *v1beta2.CleaningReport) bool {
	return (a == nil) == (b == nil) && (a == nil ||
		a.ProviderID == b.ProviderID && a.Done == b.Done && len(a.Leftovers) == len(b.Leftovers))
}

func sameEpoch(a, b *int64) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

func sameHandOver(a, b *v1beta2.HandOverReport) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Offer == b.Offer && a.Accepted == b.Accepted)
}

// Run sends the report after each change, and retries until the API server has it or ctx ends.
func (r *Reporter) Run(ctx context.Context) {
	pauses := backoff.Backoff{First: 300 * time.Millisecond, Max: 10 * time.Second, Spread: backoff.FleetSpread}
	for {
		report, pause := r.next()
		if report == nil {
			var timer <-chan time.Time
			if pause > 0 {
				timer = time.After(pause)
			}
			select {
			case <-ctx.Done():
				return
			case <-r.wake:
			case <-timer:
			}
			continue
		}
		if err := r.apply(ctx, report); err != nil {
			if ctx.Err() != nil {
				return
			}
			r.log.Warn("the report was not accepted", "error", err)
			r.mu.Lock()
			r.set(true)
			r.mu.Unlock()
			if pauses.Wait(ctx) != nil {
				return
			}
			continue
		}
		pauses.Reset()
	}
}

// next returns the report if it is due, or else how long to wait; 0 means until the report changes.
func (r *Reporter) next() (*v1beta2.AgentReport, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pause := reportPause
	switch {
	case r.dirty && r.urgent:
		pause = 0
	case !r.dirty && r.lost:
		pause = repeatPause
	case !r.dirty:
		return nil, 0
	}
	if wait := pause - time.Since(r.last); wait > 0 {
		return nil, wait
	}
	r.dirty, r.lost, r.urgent, r.last = false, false, false, time.Now()
	return r.report.DeepCopy(), 0
}
