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
	// Handler is the name of the handler on this server, empty for Discovery.
	Handler string
	// Header is the request's header, which contains the trace context if there is one. Do not change it.
	Header http.Header
}

// Tracer is called when a call begins. The handler gets the context that the Tracer returns. That context must derive
// from the one passed to the Tracer. end, which may be nil, is called once when the call ends, with a value of the
// metrics' label "answer", such as "success", "wait", "failure", "panic" or "late".
type Tracer func(ctx context.Context, call Call) (traced context.Context, end func(answer string))

// trace begins a call. Without a tracer it does nothing.
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
