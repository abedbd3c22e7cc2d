package client

import (
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/record"
	"github.com/capstan-dev/capstan/runtime/registry"
)

// Names of the metrics that [Options.Metrics] registers. Their labels are the group, version and name of the hook in
// the version that the handler serves, the ExtensionConfig, and the handler's name on the extension's server. Nothing
// that an extension answers becomes a label.
const (
	// MetricCalls counts calls by answer (Success, Blocked, Failure, Ignored, Canceled, Passed) and by whether they were
	// actually made.
	MetricCalls = "runtime_hook_calls_total"
	// MetricErrors counts calls that failed, whatever their failure policy.
	MetricErrors = "runtime_hook_call_errors_total"
	// MetricDuration is how long calls took, in seconds.
	MetricDuration = "runtime_hook_call_duration_seconds"
	// MetricBlocked counts the seconds for which handlers asked to wait.
	MetricBlocked = "runtime_hook_blocked_seconds_total"
	// MetricDeprecated counts calls in a deprecated version of a hook.
	MetricDeprecated = "runtime_hook_deprecated_calls_total"
	// MetricCircuit is 1 for the current state of an extension's circuit and 0 for the other states: Closed, Open,
	// Probing. Its labels are extension and state.
	MetricCircuit = "runtime_hook_circuit_state"
)

var handlerLabels = []string{"group", "version", "hook", "extension", "handler"}

type metrics struct {
	catalog   *hook.Catalog
	endpoints *endpoints

	calls      *prometheus.CounterVec
	errors     *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	blocked    *prometheus.CounterVec
	deprecated *prometheus.CounterVec
	circuit    *prometheus.Desc

	// series finds the metrics of a handler without hashing its labels, which costs more than updating a metric.
	mu     sync.Mutex
	series map[seriesKey]*series
}

type seriesKey struct {
	hook      hook.ID
	extension string
	handler   string
}

// series holds the metrics of one handler.
type series struct {
	calls      map[callLabels]prometheus.Counter
	errors     prometheus.Counter
	duration   prometheus.Observer
	blocked    prometheus.Counter
	deprecated prometheus.Counter // nil unless its version is deprecated
}

type callLabels struct {
	answer   record.Answer
	notAsked bool
}

func newMetrics(registerer prometheus.Registerer, catalog *hook.Catalog, endpoints *endpoints) (*metrics, error) {
	counter := func(name, help string, more ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help},
			append(handlerLabels[:len(handlerLabels):len(handlerLabels)], more...))
	}
	m := &metrics{
		catalog: catalog, endpoints: endpoints, series: map[seriesKey]*series{},
		calls: counter(MetricCalls, "Number of calls to handlers of runtime extensions, by answer.", "answer", "asked"),
		errors: counter(MetricErrors,
			"Number of failed calls to handlers of runtime extensions, including those whose failure policy is Ignore."),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: MetricDuration, Help: "How long calls to handlers of runtime extensions took.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, handlerLabels),
		blocked: counter(MetricBlocked, "Seconds for which handlers of runtime extensions asked their callers to wait."),
		deprecated: counter(MetricDeprecated,
			"Number of calls to handlers of runtime extensions for a deprecated version of a hook."),
		circuit: prometheus.NewDesc(MetricCircuit,
			"1 for the state of the extension: it is called (Closed), not called because calls failed (Open), or tried again "+
				"with one call (Probing).",
			[]string{"extension", "state"}, nil),
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.calls, m.errors, m.duration, m.blocked, m.deprecated, circuits{m}} {
		errs = append(errs, registerer.Register(c))
	}
	return m, errors.Join(errs...)
}

// observe counts a call, whether it was made or the circuit prevented it.
func (m *metrics) observe(h *registry.Handler, call record.Call) {
	s := m.of(h)
	m.counter(s, h, callLabels{call.Answer, call.NotAsked}).Inc()
	if call.Answer == record.Failure || call.Answer == record.Ignored {
		s.errors.Inc()
	}
	if call.NotAsked {
		return
	}
	s.duration.Observe(call.Duration.Seconds())
	s.blocked.Add(call.RetryAfter.Seconds())
	if s.deprecated != nil {
		s.deprecated.Inc()
	}
}

func (m *metrics) of(h *registry.Handler) *series {
	key := seriesKey{h.Hook, h.Extension.Name, h.Local}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s, ok := m.series[key]; ok {
		return s
	}
	labels := labelsOf(h)
	s := &series{
		calls:    map[callLabels]prometheus.Counter{},
		errors:   m.errors.WithLabelValues(labels...),
		duration: m.duration.WithLabelValues(labels...),
		blocked:  m.blocked.WithLabelValues(labels...),
	}
	if m.catalog.Facts(h.Hook).IsDeprecated() {
		s.deprecated = m.deprecated.WithLabelValues(labels...)
	}
	m.series[key] = s
	return s
}

func (m *metrics) counter(s *series, h *registry.Handler, labels callLabels) prometheus.Counter {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, ok := s.calls[labels]
	if !ok {
		c = m.calls.WithLabelValues(append(labelsOf(h), string(labels.answer), strconv.FormatBool(!labels.notAsked))...)
		s.calls[labels] = c
	}
	return c
}

func labelsOf(h *registry.Handler) []string {
	return []string{h.Hook.Group, h.Hook.Version, h.Hook.Name, h.Extension.Name, h.Local}
}

// forget drops the metrics of an unregistered extension.
func (m *metrics) forget(extension string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range m.series {
		if key.extension == extension {
			delete(m.series, key)
		}
	}
	of := prometheus.Labels{"extension": extension}
	for _, vec := range []interface {
		DeletePartialMatch(prometheus.Labels) int
	}{m.calls, m.errors, m.duration, m.blocked, m.deprecated} {
		vec.DeletePartialMatch(of)
	}
}

// circuits collects the states of all circuits on demand.
type circuits struct{ *metrics }

// Describe implements prometheus.Collector.
func (c circuits) Describe(to chan<- *prometheus.Desc) { to <- c.circuit }

// Collect implements prometheus.Collector.
func (c circuits) Collect(to chan<- prometheus.Metric) {
	for extension, is := range c.endpoints.states(time.Now()) {
		for _, state := range []CircuitState{CircuitClosed, CircuitOpen, CircuitProbing} {
			value := 0.0
			if state == is {
				value = 1
			}
			to <- prometheus.MustNewConstMetric(c.circuit, prometheus.GaugeValue, value, extension, string(state))
		}
	}
}
