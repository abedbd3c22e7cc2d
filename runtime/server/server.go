// Package server serves hooks: it turns typed functions into a plain http.Handler.
//
//	extension, err := server.New(server.Options{Log: log},
//		server.Handle(hook.BeforeClusterCreate, "gate", gate.beforeClusterCreate, server.Timeout(5*time.Second)),
//	)
//	...
//	err = server.Serve(ctx, server.TLS{Address: ":9443", CertFile: "tls.crt", KeyFile: "tls.key"}, extension)
//
// [New] rejects everything that a discovery or a call would reject, so a server that starts also works. The server
// answers Discovery itself. A handler blocks by returning [Wait], and in no other way.
//
// Each request is bounded: in size, in time and in how many run at once. If a handler panics or does not return in
// time, only its own call fails, with an HTTP error status; callers apply the handler's failure policy to that. A
// handler's result, and what is wrong with a request, come as a response with HTTP status 200 (RX-44).
//
// Ids such as RX-23 are rules of the Runtime SDK's contract; RULES.md in the module's root explains them.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/internal/wire"
	"github.com/capstan-dev/capstan/runtime/registry"
)

// OpenAPIPath is where a server with [Options.Catalog] serves the catalog's OpenAPI document.
const OpenAPIPath = "/openapi/v3"

const (
	// DefaultParallel is how many requests run at the same time.
	DefaultParallel = 32
	// waitingFactor, multiplied by Parallel, is how many more requests may wait.
	waitingFactor = 8
)

// Options of a Server. The zero value works.
type Options struct {
	// Log receives one line for each call. Default: none.
	Log *slog.Logger
	// Prefix is prepended to all paths, for example "/extensions"; the ExtensionConfig's URL must end in it. Default:
	// none.
	Prefix string
	// Parallel is how many requests run at the same time; others wait. It bounds memory: a request may be up to 20 MiB.
	// Default: DefaultParallel.
	Parallel int
	// Metrics registers the server's metrics: calls by hook, version, handler and outcome, their durations, and the
	// seconds that callers were asked to wait. Default: none are registered.
	Metrics prometheus.Registerer
	// Trace is called when a call begins, see [Tracer]. Package trace has one for OpenTelemetry. Default: none.
	Trace Tracer
	// Ready returns nil while calls are welcome, for [Server.Health]; it has two seconds to do so. Default: always
	// welcome.
	Ready func(context.Context) error
	// Catalog describes the handlers' hooks in the OpenAPI document, which is served to GET requests at [OpenAPIPath]
	// below the prefix. Default: the document is not served.
	Catalog *hook.Catalog
}

// Server is the http.Handler of an extension. Make it with [New].
type Server struct {
	log      *slog.Logger
	routes   map[string]*Handler // by path
	openAPI  map[string][]byte   // by path; at most one
	turns    chan struct{}
	waiting  chan struct{}
	metrics  *metrics
	tracer   Tracer
	isReady  func(context.Context) error
	draining atomic.Bool
}

var (
	errDraining = errors.New("the server is shutting down")
	errSetRetry = errors.New("the handler set retryAfterSeconds itself; it must return server.Wait")
)

// New makes a server of these handlers. The error names everything that is wrong with them.
func New(options Options, handlers ...Handler) (*Server, error) {
	if options.Parallel < 0 {
		return nil, fmt.Errorf("making a server for hooks: Parallel is %d: it must not be negative", options.Parallel)
	}
	prefix := strings.TrimSuffix(options.Prefix, "/")
	if prefix != "" && !strings.HasPrefix(prefix, "/") {
		return nil, fmt.Errorf("making a server for hooks: the prefix %q must begin with a slash", options.Prefix)
	}
	parallel := cmp.Or(options.Parallel, DefaultParallel)
	s := &Server{
		log:     options.Log,
		routes:  map[string]*Handler{},
		turns:   make(chan struct{}, parallel),
		waiting: make(chan struct{}, waitingFactor*parallel),
		tracer:  options.Trace,
		isReady: options.Ready,
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	names := map[string]bool{}
	var errs []error
	if len(handlers) > registry.MaxHandlers {
		errs = append(errs, fmt.Errorf("there are %d handlers, an ExtensionConfig can list %d: make two extensions",
			len(handlers), registry.MaxHandlers))
	}
	for i := range handlers {
		h := handlers[i] // a copy that nobody else holds
		if err := h.check(); err != nil {
			errs = append(errs, err)
			continue
		}
		if names[h.name] {
			errs = append(errs,
				fmt.Errorf("handler %q: another one has the same name: names are unique within a server", h.name))
			continue
		}
		names[h.name] = true
		s.routes[prefix+h.descriptor.ID.Path(h.name)] = &h
	}
	errs = append(errs, checkSingletons(options.Catalog, handlers))
	var err error
	if s.metrics, err = newMetrics(options.Metrics); err != nil {
		errs = append(errs, fmt.Errorf("registering metrics: %w", err))
	}
	if s.openAPI, err = openAPIRoute(options.Catalog, prefix); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("making a server for hooks: %w", err)
	}
	discovery := discoveryHandler(handlers)
	s.routes[prefix+discovery.descriptor.ID.Path("")] = &discovery
	return s, nil
}

// discoveryHandler answers with the handlers, sorted by name, because the answer ends up in a status.
func discoveryHandler(handlers []Handler) Handler {
	entries := make([]runtimehooksv1.ExtensionHandler, len(handlers))
	for i := range handlers {
		entries[i] = handlers[i].entry()
	}
	slices.SortFunc(entries, func(a, b runtimehooksv1.ExtensionHandler) int { return cmp.Compare(a.Name, b.Name) })
	return Handle(hook.Discovery, "", func(_ context.Context, _ *runtimehooksv1.DiscoveryRequest,
		response *runtimehooksv1.DiscoveryResponse) error {
		response.Handlers = entries
		return nil
	})
}

// ServeHTTP answers one call.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if document, ok := s.openAPI[r.URL.Path]; ok && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		w.Header().Set("Content-Type", wire.ContentType)
		_, _ = w.Write(document)
		return
	}
	h, ok := s.routes[r.URL.Path]
	if !ok {
		http.Error(w, "there is no handler at this path; POST to the discovery path lists them", http.StatusNotFound)
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "hooks are called with POST", http.StatusMethodNotAllowed)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), h.budget(r))
	defer cancel()
	start := time.Now()
	ctx, end := s.trace(ctx, h, r)
	answered := answeredBusy
	if release, err := s.turn(ctx); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	} else {
		answered = s.serve(ctx, start, release, h, w, r)
	}
	s.metrics.ended(h, answered, time.Since(start))
	end(answered)
}

// budget is how long the call may take: a little less than the caller waits, so that the caller still gets an answer.
func (h *Handler) budget(r *http.Request) time.Duration {
	waits := h.waits()
	if asked, err := time.ParseDuration(r.URL.Query().Get("timeout")); err == nil && asked > 0 {
		waits = min(waits, asked)
	}
	return waits - min(waits/10, 500*time.Millisecond)
}

// turn waits for a free slot. release must be called once.
func (s *Server) turn(ctx context.Context) (release func(), err error) {
	release = func() { <-s.turns }
	select {
	case s.turns <- struct{}{}:
		return release, nil
	default:
	}
	select {
	case s.waiting <- struct{}{}:
		defer func() { <-s.waiting }()
	default:
		return nil, errors.New("too many calls at once: try again later")
	}
	select {
	case s.turns <- struct{}{}:
		return release, nil
	case <-ctx.Done():
		return nil, errors.New("too many calls at once: no slot became free in time")
	}
}

// outcome is how a handler's function returned.
type outcome struct {
	err      error
	panicked bool
}

// serve reads the request, calls the handler and answers. It returns how the call ended.
func (s *Server) serve(ctx context.Context, start time.Time, release func(), h *Handler, w http.ResponseWriter,
	r *http.Request) (answered string) {
	log := s.log.With("hook", h.descriptor.ID.Name, "handler", h.name)
	if deadline, ok := ctx.Deadline(); ok {
		_ = http.NewResponseController(w).SetReadDeadline(deadline) // a slow body must not keep its slot
	}
	body, err := wire.Read(http.MaxBytesReader(w, r.Body, wire.MaxBody+1), wire.MaxBody, r.ContentLength)
	if err != nil {
		release()
		status := http.StatusBadRequest
		if tooLarge := new(http.MaxBytesError); errors.Is(err, wire.ErrTooLarge) || errors.As(err, &tooLarge) {
			status = http.StatusRequestEntityTooLarge
			w.Header().Set("Connection", "close") // the rest is not read
		}
		log.Warn("A request could not be read", "error", err)
		http.Error(w, "reading the request: "+err.Error(), status)
		return answeredUnreadable
	}
	request, err := decode(h, body)
	if err != nil {
		release()
		log.Warn("A request could not be decoded", "error", err)
		s.answer(w, h, failure(h, err))
		return answeredFailure
	}
	if cluster := clusterOf(request); cluster != nil {
		log = log.With("cluster", cluster.Namespace+"/"+cluster.Name)
	}
	response := h.descriptor.NewResponse()
	ended := make(chan outcome, 1)
	s.metrics.running.Inc()
	go func() {
		// A handler that is still running after its time keeps its slot, so the number of running handlers stays
		// bounded.
		defer release()
		defer s.metrics.running.Dec()
		defer func() {
			if cause := recover(); cause != nil {
				log.Error("A handler panicked", "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
				ended <- outcome{panicked: true}
			}
		}()
		ended <- outcome{err: h.call(ctx, request, response)}
	}()
	select {
	case o := <-ended:
		if o.panicked {
			http.Error(w, "the handler crashed; see the extension's log", http.StatusInternalServerError)
			return answeredPanic
		}
		answer := conclude(h, response, o.err)
		logAnswer(ctx, log, answer, time.Since(start))
		s.answer(w, h, answer)
		return s.metrics.answered(h, answer)
	case <-ctx.Done():
		log.Error("A handler did not return in time", "duration", time.Since(start).String())
		http.Error(w, "the handler did not return in time", http.StatusGatewayTimeout)
		return answeredLate
	}
}

// conclude makes the response from a function's result. It sends nothing that a failed function left in the response.
func conclude(h *Handler, response runtimehooksv1.ResponseObject, err error) runtimehooksv1.ResponseObject {
	retry, canWait := response.(runtimehooksv1.RetryResponseObject)
	wait := new(waitError)
	switch {
	case errors.As(err, &wait) && canWait:
		retry.SetRetryAfterSeconds(wait.seconds)
		retry.SetMessage(wait.reason)
	case errors.As(err, &wait):
		return failure(h, fmt.Errorf("the handler wants to wait (%s), but hook %s does not allow it", wait.reason,
			h.descriptor.ID.Name))
	case err != nil:
		return failure(h, err)
	case canWait && retry.GetRetryAfterSeconds() != 0:
		return failure(h, errSetRetry)
	}
	response.SetStatus(runtimehooksv1.ResponseStatusSuccess)
	response.SetMessage(wire.Clip(response.GetMessage(), wire.MaxMessage))
	return response
}

// failure answers with an error's text, or with a default text if it is empty: the message must explain (RX-14).
func failure(h *Handler, err error) runtimehooksv1.ResponseObject {
	response := h.descriptor.NewResponse()
	response.SetStatus(runtimehooksv1.ResponseStatusFailure)
	message := strings.TrimSpace(err.Error())
	if message == "" {
		message = fmt.Sprintf("the handler %q failed without a reason; see the extension's log", h.name)
	}
	response.SetMessage(wire.Clip(message, wire.MaxMessage))
	return response
}

func (s *Server) answer(w http.ResponseWriter, h *Handler, response runtimehooksv1.ResponseObject) {
	data, err := wire.Encode(response, h.descriptor.ID.APIVersion(), h.descriptor.ResponseKind)
	if err == nil && len(data) > wire.MaxBody {
		err = fmt.Errorf("the response has %d bytes: at most %d are allowed", len(data), wire.MaxBody)
	}
	if err != nil {
		s.log.Error("A response could not be sent", "handler", h.name, "error", err)
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", wire.ContentType)
	_, _ = w.Write(data) // the caller has gone: it will ask again
}
