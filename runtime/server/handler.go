package server

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/registry"
)

// Func handles one hook. It gets an empty response to fill, and returns
//
//   - nil for Success,
//   - the result of [Wait] to block, if the hook allows it,
//   - any other error for Failure. Its text ends up in conditions: it must not contain secrets, and the same failure
//     must produce the same text (RX-28).
//
// The context is done when the caller stops waiting. Handlers should be quick, idempotent, and depend on the request
// alone (RX-21, RX-24, RX-25). Do not set the response's status and retryAfterSeconds.
type Func[Req, Resp any] func(ctx context.Context, request *Req, response *Resp) error

// Handler is one handler of a server. Make it with [Handle] or [HandleSettings].
type Handler struct {
	name           string
	descriptor     *hook.Descriptor
	timeout        time.Duration // 0: the default
	ignoreFailures bool
	problem        error // found by the constructor
	call           func(context.Context, runtime.Object, runtimehooksv1.ResponseObject) error
}

// Option changes how callers treat a handler.
type Option func(*Handler)

// Timeout sets how long callers wait for the handler: whole seconds, at most 30 (RX-18, CL-02). Default: 10 seconds.
func Timeout(timeout time.Duration) Option {
	return func(h *Handler) { h.timeout = timeout }
}

// IgnoreFailures tells callers to go on if the handler is unreachable or breaks (RX-19). A response with status
// Failure still counts as a failure. Most handlers should not use this option.
func IgnoreFailures() Option {
	return func(h *Handler) { h.ignoreFailures = true }
}

// Broken makes [New] report the error, if it is not nil. It is for packages that build handlers from their callers'
// arguments and find that these can't work.
func Broken(err error) Option {
	return func(h *Handler) { h.problem = err }
}

// Handle makes a handler. The name is a DNS label and unique within the server (RX-16). [New] reports what is wrong
// with a handler.
func Handle[Req, Resp any](of hook.Hook[Req, Resp], name string, handle Func[Req, Resp], options ...Option) Handler {
	h := Handler{name: name, descriptor: of.Descriptor()}
	if handle != nil {
		h.call = func(ctx context.Context, request runtime.Object, response runtimehooksv1.ResponseObject) error {
			return handle(ctx, any(request).(*Req), any(response).(*Resp))
		}
	}
	for _, option := range options {
		option(&h)
	}
	return h
}

// check returns what is wrong with a handler: what would make a discovery reject it, or a call fail.
func (h *Handler) check() error {
	switch problems := validation.IsDNS1123Label(h.name); {
	case h.descriptor == nil:
		return fmt.Errorf("handler %q: the hook has no name: make it with hook.Define or hook.Of", h.name)
	case h.descriptor.ID == hook.Discovery.ID():
		return fmt.Errorf("handler %q: the server answers Discovery itself", h.name)
	case !h.descriptor.HasSettings:
		return fmt.Errorf("handler %q: requests of hook %s have no settings", h.name, h.descriptor.ID)
	case h.problem != nil:
		return fmt.Errorf("handler %q: %w", h.name, h.problem)
	case h.call == nil:
		return fmt.Errorf("handler %q: the function is nil", h.name)
	case len(problems) > 0:
		return fmt.Errorf("handler %q: the name is not valid: %s", h.name, problems[0])
	case h.timeout < 0 || h.timeout > registry.MaxTimeout:
		return fmt.Errorf("handler %q: the timeout is %s: it must be 0 to %s", h.name, h.timeout, registry.MaxTimeout)
	case h.timeout%time.Second != 0:
		return fmt.Errorf("handler %q: the timeout is %s: it must be whole seconds", h.name, h.timeout)
	}
	return nil
}

// waits returns how long callers wait.
func (h *Handler) waits() time.Duration {
	if h.timeout == 0 {
		return registry.DefaultTimeout
	}
	return h.timeout
}

// entry returns the handler's entry in the response of Discovery.
func (h *Handler) entry() runtimehooksv1.ExtensionHandler {
	timeout := int32(h.waits() / time.Second)
	policy := runtimehooksv1.FailurePolicyFail
	if h.ignoreFailures {
		policy = runtimehooksv1.FailurePolicyIgnore
	}
	return runtimehooksv1.ExtensionHandler{
		Name:           h.name,
		RequestHook:    runtimehooksv1.GroupVersionHook{APIVersion: h.descriptor.ID.APIVersion(), Hook: h.descriptor.ID.Name},
		TimeoutSeconds: &timeout,
		FailurePolicy:  &policy,
	}
}
