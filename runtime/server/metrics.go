package server

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

// Values of the metrics' label "answer": how a call ended.
const (
	answeredSuccess    = "success"
	answeredWait       = "wait"
	answeredFailure    = "failure"
	answeredPanic      = "panic"
	answeredLate       = "late"       // not in time
	answeredBusy       = "busy"       // no slot became free in time, or too many calls wait
	answeredUnreadable = "unreadable" // too large, or broken off
)

// metrics counts calls. Only the server's own handlers become labels, never what callers send.
type metrics struct {
	calls    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	waited   *prometheus.CounterVec
	running  prometheus.Gauge
}

var handlerLabels = []string{"hook", "version", "handler"}

// newMetrics makes metrics and registers them, unless the registerer is nil.
func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "runtime_extension_calls_total", Help: "Number of finished calls of handlers, by outcome.",
		}, append(handlerLabels[:len(handlerLabels):len(handlerLabels)], "answer")),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "runtime_extension_call_duration_seconds",
			Help:    "Seconds that calls of handlers took, from the headers of the request to the answer.",
			Buckets: []float64{.001, .005, .01, .025, .05, .1, .2, .5, 1, 2.5, 5, 10, 30},
		}, handlerLabels),
		waited: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "runtime_extension_wait_seconds_total", Help: "Seconds for which handlers asked their callers to wait.",
		}, handlerLabels),
		running: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "runtime_extension_calls_running", Help: "Number of calls in progress.",
		}),
	}
	if registerer == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.calls, m.duration, m.waited, m.running} {
		errs = append(errs, registerer.Register(c))
	}
	return m, errors.Join(errs...)
}

func (m *metrics) ended(h *Handler, answer string, took time.Duration) {
	id := h.descriptor.ID
	m.calls.WithLabelValues(id.Name, id.Version, h.name, answer).Inc()
	m.duration.WithLabelValues(id.Name, id.Version, h.name).Observe(took.Seconds())
}

// answered returns how an answered call ended, and counts the seconds that the caller was asked to wait.
func (m *metrics) answered(h *Handler, response runtimehooksv1.ResponseObject) string {
	if response.GetStatus() != runtimehooksv1.ResponseStatusSuccess {
		return answeredFailure
	}
	if retry, ok := response.(runtimehooksv1.RetryResponseObject); ok && retry.GetRetryAfterSeconds() != 0 {
		id := h.descriptor.ID
		m.waited.WithLabelValues(id.Name, id.Version, h.name).Add(float64(retry.GetRetryAfterSeconds()))
		return answeredWait
	}
	return answeredSuccess
}
