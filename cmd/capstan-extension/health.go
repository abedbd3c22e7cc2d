package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// serveHealth serves /healthz, /readyz and /metrics over plain HTTP, because probes have no client certificate. The
// process is healthy as long as it answers; the answers to hooks show whether the management cluster can be reached.
// The returned function stops the server and waits until it has stopped.
func serveHealth(ctx context.Context, address string, probes http.Handler,
	metrics prometheus.Gatherer) (stop func(), err error) {
	if address == "" {
		return func() {}, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serving --healthz: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", probes)
	mux.Handle("GET /readyz", probes)
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	health := &http.Server{
		Handler: mux, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second, MaxHeaderBytes: 8 << 10,
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = health.Serve(listener) // returns after Close
	}()
	return func() {
		_ = health.Close() // an interrupted probe does no harm
		<-ended
	}, nil
}
