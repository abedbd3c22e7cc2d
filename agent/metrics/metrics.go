// Package metrics counts and times what an agent does, and serves the result to Prometheus.
//
// It writes Prometheus' text format itself, because the client library would make the agent larger.
package metrics

import (
	"sync"
	"time"

	"github.com/capstan-dev/capstan/api/v1beta2"
)

// Results of bootstraps, cleaning and token renewals.
const (
	succeeded = "succeeded"
	failed    = "failed"
)

// Metrics counts events since the agent's process started. A nil *Metrics records nothing.
type Metrics struct {
	version, address string

	mu         sync.Mutex
	report     func() v1beta2.AgentReport // nil: no report yet
	claim      string                     // the last claim that was counted
	claims     uint64
	reconnects uint64
	renewals   map[string]uint64
	bootstraps map[string]*histogram
	cleanings  map[string]*histogram
}

// New returns the metrics of an agent with this version. Serve serves them at address, or nowhere if that is empty.
func New(version, address string) *Metrics {
	return &Metrics{
		version:    version,
		address:    address,
		renewals:   map[string]uint64{succeeded: 0, failed: 0},
		bootstraps: map[string]*histogram{succeeded: newHistogram(), failed: newHistogram()},
		cleanings:  map[string]*histogram{succeeded: newHistogram(), failed: newHistogram()},
	}
}

// Report sets the function that returns the agent's current report, from which the gauges come.
func (m *Metrics) Report(report func() v1beta2.AgentReport) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.report = report
}

// Claimed counts a claim, given by its providerID, the first time that the agent works for it.
func (m *Metrics) Claimed(claim string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.claim != claim {
		m.claim = claim
		m.claims++
	}
}

// Bootstrapped records a bootstrap that ended, and how long its last attempt took.
func (m *Metrics) Bootstrapped(took time.Duration, ok bool) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bootstraps[result(ok)].observe(took.Seconds())
}

// Cleaned records an attempt to clean the host, and whether the host is clean.
func (m *Metrics) Cleaned(took time.Duration, ok bool) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cleanings[result(ok)].observe(took.Seconds())
}

// Renewed counts an attempt to renew the agent's token.
func (m *Metrics) Renewed(ok bool) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.renewals[result(ok)]++
}

// Reconnects counts another start of the watch of the host.
func (m *Metrics) Reconnects() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reconnects++
}

func result(ok bool) string {
	if ok {
		return succeeded
	}
	return failed
}

// buckets are the upper bounds of all histograms, in seconds.
var buckets = [...]float64{1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 3600}

// histogram counts durations by bucket. The last count is that of durations longer than all bounds.
type histogram struct {
	counts [len(buckets) + 1]uint64
	sum    float64
}

func newHistogram() *histogram { return &histogram{} }

func (h *histogram) observe(seconds float64) {
	h.sum += seconds
	for i, bound := range buckets {
		if seconds <= bound {
			h.counts[i]++
			return
		}
	}
	h.counts[len(buckets)]++
}
