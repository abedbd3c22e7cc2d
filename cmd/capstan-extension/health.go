package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// serveHealth answers /healthz over plain HTTP: a probe has no certificate to show. The process is healthy while it answers;
// whether the management cluster can be reached shows in the answers to hooks. stop ends it and waits for that.
func serveHealth(ctx context.Context, address string) (stop func(), err error) {
	if address == "" {
		return func() {}, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serving --healthz: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	health := &http.Server{Handler: mux, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second, MaxHeaderBytes: 8 << 10}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = health.Serve(listener) // ends with Close
	}()
	return func() {
		_ = health.Close() // nothing that a probe would miss
		<-ended
	}, nil
}
