package server

import (
	"context"
	"net/http"
	"time"
)

// readyTimeout bounds a call of Options.Ready.
const readyTimeout = 2 * time.Second

// Health returns a handler for probes. /healthz answers 200 as long as the process responds. /readyz answers 200 while
// calls are welcome: until [Server.Drain] is called, and as long as [Options.Ready] returns nil. Serve it on a port of
// its own, over plain HTTP if you like: it reveals nothing about calls.
func (s *Server) Health() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := s.ready(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	return mux
}

// Drain makes /readyz fail, so that load balancers send no new calls here. Calls that still arrive are answered.
// [Serve] calls Drain when its context is done.
func (s *Server) Drain() { s.draining.Store(true) }

func (s *Server) ready(ctx context.Context) error {
	if s.draining.Load() {
		return errDraining
	}
	if s.isReady == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return s.isReady(ctx)
}
