package server

import (
	"context"
	"net/http"
	"time"
)

// readyTimeout bounds a question to Options.Ready.
const readyTimeout = 2 * time.Second

// Health gives a handler for probes: /healthz answers 200 as long as the process does, /readyz answers 200 while calls
// are welcome: before [Server.Drain], and while [Options.Ready] gives nil. Serve it on a port of its own, over plain
// HTTP if you like: it tells nothing about calls.
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

// Drain makes /readyz say no, so that no new calls are sent here. Calls that come all the same are answered. [Serve]
// calls it when its context ends.
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
