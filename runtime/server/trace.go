package server

import (
	"context"
	"net/http"

	"github.com/capstan-dev/capstan/runtime/hook"
)

// Call is a call of a handler, as [Options.Trace] sees it.
type Call struct {
	// Hook in the version that was called.
	Hook hook.ID
	// Handler is its name on this server, empty for Discovery.
	Handler string
	// Header is that of the request; a trace's context is in it, if there is one. Do not change it.
	Header http.Header
}

// Tracer is told when a call begins. The context that it gives is the one that the handler gets, with what was in its
// own; end, which may be nil, is told once how the call ended: with the values of label "answer" of the metrics, such
// as "success", "wait", "failure", "panic", "late".
type Tracer func(ctx context.Context, call Call) (traced context.Context, end func(answer string))

// trace begins a call. Nothing happens without a tracer.
func (s *Server) trace(ctx context.Context, h *Handler, r *http.Request) (context.Context, func(string)) {
	if s.tracer == nil {
		return ctx, func(string) {}
	}
	traced, end := s.tracer(ctx, Call{Hook: h.descriptor.ID, Handler: h.name, Header: r.Header})
	if end == nil {
		end = func(string) {}
	}
	return traced, end
}
