// Package metrics exports the provider's Prometheus metrics about the hosts of the inventory and about what machines
// wait for.
//
// Inventory computes gauges from the manager's cache at each scrape. Recorder derives counters and durations from the
// statuses that the controllers write. It counts a change once, after the API server has accepted it, so a repeated
// reconcile counts nothing twice. If a wait began before the manager started, it is measured from the manager's start;
// a cleaning that began before is not measured.
package metrics

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/claim"
)

// Names of the metrics of a Recorder.
const (
	// ClaimWait is a histogram of seconds.
	ClaimWait = "capstan_machine_host_wait_seconds"
	// PlacementFailures is a counter by reason.
	PlacementFailures = "capstan_placement_failures_total"
	// BootstrapDuration is a histogram of seconds by result.
	BootstrapDuration = "capstan_bootstrap_duration_seconds"
	// CleaningDuration is a histogram of seconds by result.
	CleaningDuration = "capstan_host_cleaning_duration_seconds"
	// Quarantines is a counter by reason.
	Quarantines = "capstan_host_quarantines_total"
)

// Results of bootstraps and of cleaning.
const (
	Succeeded = "succeeded"
	Failed    = "failed"
)

// Recorder counts and times what the controllers do. A nil Recorder records nothing.
type Recorder struct {
	clock       clock.PassiveClock
	wait        prometheus.Histogram
	failures    *prometheus.CounterVec
	bootstraps  *prometheus.HistogramVec
	cleanings   *prometheus.HistogramVec
	quarantines *prometheus.CounterVec

	mu sync.Mutex
	// waiting records when machines began to need a host; cleaning records when the cleaning of hosts began.
	waiting, cleaning map[types.NamespacedName]began
}

// began records when something began for an object.
type began struct {
	uid types.UID
	at  time.Time
}

// New returns a Recorder and registers its metrics with registerer.
func New(registerer prometheus.Registerer, now clock.PassiveClock) (*Recorder, error) {
	r := &Recorder{
		clock: now,
		wait: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    ClaimWait,
			Help:    "Seconds from the time when a CapstanMachine first needed a host until it had one.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400},
		}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: PlacementFailures,
			Help: "Number of searches that found no host for a machine, by the reason why hosts did not fit. A search counts " +
				"once for each reason.",
		}, []string{"reason"}),
		bootstraps: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    BootstrapDuration,
			Help:    "Seconds that hosts took to run bootstrap data, measured by the hosts' own clocks.",
			Buckets: []float64{1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 3600},
		}, []string{"result"}),
		cleanings: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    CleaningDuration,
			Help:    "Seconds from the release of a host until it was proved clean or quarantined.",
			Buckets: []float64{1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 3600},
		}, []string{"result"}),
		quarantines: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: Quarantines,
			Help: "Number of times that a host was not clean after a machine, by the reason of its condition Clean.",
		}, []string{"reason"}),
		waiting:  map[types.NamespacedName]began{},
		cleaning: map[types.NamespacedName]began{},
	}
	var errs []error
	for _, c := range []prometheus.Collector{r.wait, r.failures, r.bootstraps, r.cleanings, r.quarantines} {
		errs = append(errs, registerer.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	return r, nil
}

// Wants records that a machine needs a host from now on.
func (r *Recorder) Wants(machine *infrav1.CapstanMachine) {
	if r == nil {
		return
	}
	r.begin(r.waiting, machine)
}

// NotPlaced counts a search that found no host, once for each reason.
func (r *Recorder) NotPlaced(reasons []string) {
	if r == nil {
		return
	}
	for _, reason := range reasons {
		r.failures.WithLabelValues(reason).Inc()
	}
}

// MachineGone forgets a machine that no longer exists.
func (r *Recorder) MachineGone(name types.NamespacedName) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting, name)
}

// HostGone forgets a host that no longer exists.
func (r *Recorder) HostGone(name types.NamespacedName) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.cleaning, name)
}

// Machine records a change of a machine's status. host is the machine's host, or nil.
func (r *Recorder) Machine(before, after *infrav1.CapstanMachine, host *infrav1.CapstanHost) {
	if r == nil {
		return
	}
	if became(before, after, infrav1.HostClaimedCondition, infrav1.HostClaimedReason) {
		if since, known := r.took(r.waiting, after); known {
			r.wait.Observe(since.Seconds())
		}
	}
	result := ""
	switch {
	case became(before, after, infrav1.BootstrappedCondition, infrav1.BootstrapSucceededReason):
		result = Succeeded
	case became(before, after, infrav1.BootstrappedCondition, infrav1.BootstrapFailedReason):
		result = Failed
	}
	if result == "" || host == nil {
		return
	}
	report := claim.Bootstrap(host)
	if report != nil && !report.StartTime.IsZero() && !report.CompletionTime.IsZero() {
		r.bootstraps.WithLabelValues(result).Observe(max(0, report.CompletionTime.Sub(report.StartTime.Time).Seconds()))
	}
}

// Released records that a host lost its machine and that its cleaning begins. It ignores a host whose status already
// shows cleaning or quarantine: either the beginning is recorded already, or the cleaning began before this process
// started and is not measured.
func (r *Recorder) Released(host *infrav1.CapstanHost) {
	if r == nil || host.Status.Phase == infrav1.HostCleaning || host.Status.Phase == infrav1.HostQuarantined {
		return
	}
	r.begin(r.cleaning, host)
}

// Cleaned records that a host was proved clean and is free again.
func (r *Recorder) Cleaned(host *infrav1.CapstanHost) {
	if r != nil {
		r.cleaned(host, Succeeded)
	}
}

// Host records a change of a host's status.
func (r *Recorder) Host(before, after *infrav1.CapstanHost) {
	if r == nil || before.Status.Phase == after.Status.Phase || after.Status.Phase != infrav1.HostQuarantined {
		return
	}
	r.quarantines.WithLabelValues(reasonOf(after, infrav1.CleanCondition)).Inc()
	r.cleaned(after, Failed)
}

func (r *Recorder) cleaned(host *infrav1.CapstanHost, result string) {
	if since, known := r.took(r.cleaning, host); known {
		r.cleanings.WithLabelValues(result).Observe(since.Seconds())
	}
}

// begin records when something begins for an object. Further calls for the same object change nothing.
func (r *Recorder) begin(begun map[types.NamespacedName]began, object client.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := client.ObjectKeyFromObject(object)
	if begun[name].uid != object.GetUID() {
		begun[name] = began{object.GetUID(), r.clock.Now()}
	}
}

// took returns the time since begin was called for an object, and removes the record. It reports false if there was no
// record of exactly this object.
func (r *Recorder) took(begun map[types.NamespacedName]began, object client.Object) (time.Duration, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := client.ObjectKeyFromObject(object)
	since, known := begun[name]
	delete(begun, name)
	return r.clock.Since(since.at), known && since.uid == object.GetUID()
}

// became reports whether a condition changed to a reason.
func became(before, after conditions.Getter, condition, reason string) bool {
	return conditions.GetReason(after, condition) == reason && conditions.GetReason(before, condition) != reason
}

func reasonOf(object conditions.Getter, condition string) string {
	if reason := conditions.GetReason(object, condition); reason != "" {
		return reason
	}
	return infrav1.NoReasonReportedReason
}
