// Package report keeps status.agent of a host the way it should be: whatever changes it is sent once, and again until
// the API has it.
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
	// reportPause is the least time between two reports of progress. Results don't wait.
	reportPause = 400 * time.Millisecond
	// repeatPause is the least time before a report is sent again because the API shows another one.
	repeatPause = 3 * time.Second
)

// Apply sends a report to the API.
type Apply func(context.Context, *v1beta2.AgentReport) error

// Reporter holds the report of one agent and sends it. Its methods may be called by several goroutines.
type Reporter struct {
	apply Apply
	log   *slog.Logger

	mu     sync.Mutex
	report v1beta2.AgentReport
	dirty  bool          // it changed since it was sent
	lost   bool          // the API shows another one
	urgent bool          // it can't wait
	last   time.Time     // when it was sent
	wake   chan struct{} // holds at most one
}

// New returns a Reporter with an empty report. Run sends it.
func New(apply Apply, log *slog.Logger) *Reporter {
	return &Reporter{apply: apply, log: log, wake: make(chan struct{}, 1)}
}

// Update changes the report. It is sent if it is different afterwards, at once if urgent.
func (r *Reporter) Update(urgent bool, change func(*v1beta2.AgentReport)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.report.DeepCopy()
	change(&r.report)
	if !reflect.DeepEqual(before, &r.report) {
		r.set(urgent)
	}
}

// Get returns a copy of the report as it is now.
func (r *Reporter) Get() v1beta2.AgentReport {
	r.mu.Lock()
	defer r.mu.Unlock()
	return *r.report.DeepCopy()
}

// set marks the report as to be sent. The lock is held.
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

// Seen compares the report with what the API shows: status is lost when a host is moved to another management cluster.
// What a watch shows may be older than the last report, so sending it again waits a moment.
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

// Run sends the report whenever it changed, again and again until the API has it or ctx ends.
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
			r.log.Warn("the report was not taken", "error", err)
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

// next returns the report if it is to be sent now, or else how long to wait; 0 means until it changes.
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
