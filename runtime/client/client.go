// Package client calls the handlers of runtime extensions.
//
// [Client] implements Cluster API's public interface for this, sigs.k8s.io/cluster-api/exp/runtime/client.Client, so
// Cluster API's reconcilers can use it as it is:
//
//	calls, err := client.New(client.Options{Reader: mgr.GetClient(), Observer: journal})
//	...
//	(&controllers.ClusterTopologyReconciler{RuntimeClient: calls, ...}).SetupWithManager(...)
//
// # What a call does
//
// [Client.CallAllExtensions] calls all handlers of the hook whose selectors match, a bounded number of them at a time.
// Each call takes at most the handler's timeout, and all together take at most [Options.Deadline]. The request is
// encoded once for all handlers that get the same settings; it is neither kept nor changed. Answers are joined in the
// registry's order, so the same answers produce the same message; the shortest retryAfterSeconds wins (CL-11). If a
// handler fails, those after it in that order are cancelled or not called at all; the returned error is always that of
// the first failing handler in the order.
//
// If the joined answer blocks, the client holds it until the shortest wait named by a handler is over. Callers that
// ask again before then get the held answer with the remaining wait, and no handler is called. A change of the
// request, the object or an ExtensionConfig invalidates the held answer. Cluster API's reconcilers sleep through the
// whole wait that they get, so the client returns at most [Options.Recheck] at a time: this way they notice such
// changes.
//
// # What can go wrong
//
//   - The call fails: no connection, an untrusted certificate, no answer in time, a status other than 200, a redirect,
//     a body that is too large or is not the hook's response. With failure policy Fail this is an error; with Ignore
//     it counts as an empty Success (CL-04). A body that can't be decoded is discarded entirely.
//   - The handler answers with status Failure, or with an unknown status: an error whatever the policy (CL-05, CL-20).
//   - The caller's context is done, or the deadline of all calls together has passed: an error whatever the policy; it
//     does not count against the extension.
//   - Something is misconfigured, for example the handler serves another hook: an error whatever the policy.
//
// An extension whose calls fail five times in a row is paused for a second, and for twice as long after each further
// failure, up to [Options.LongestPause]. During the pause, calls fail immediately with the last error, and the failure
// policy applies. After it, one call finds out whether the extension works again.
//
// An extension may have been redeployed if it answers again after a pause, has closed its connections, or answers 404
// for a handler. The function set by [Client.OnStale] is then called, so that the extension is discovered again.
//
// Errors of calls are of type [*CallError]. Because they end up in conditions, their texts are stable: the same
// failure produces the same text, without times and port numbers.
//
// Ids such as CL-11 are rules of the Runtime SDK's contract; RULES.md in the module's root explains them.
package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	runtimeclient "sigs.k8s.io/cluster-api/exp/runtime/client"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/record"
	"github.com/capstan-dev/capstan/runtime/registry"
)

const (
	// DefaultDeadline bounds the total time of all calls of one hook.
	DefaultDeadline = 60 * time.Second
	// DefaultParallel is how many handlers of one hook are called at the same time. Extensions mostly wait for other
	// systems, so there may be more calls than processors.
	DefaultParallel = 32
	// DefaultMaxRetryAfter is the longest wait that a handler can ask for.
	DefaultMaxRetryAfter = 5 * time.Minute
	// DefaultRecheck is the longest wait that a caller gets at a time.
	DefaultRecheck = 15 * time.Second
	// DefaultLongestPause is the longest pause of an extension that does not work.
	DefaultLongestPause = 30 * time.Second
)

// Options of a Client. The zero value works for extensions without a namespaceSelector.
type Options struct {
	// Catalog of the hooks that can be called. Default: those of Cluster API.
	Catalog *hook.Catalog

	// Reader reads the Namespace of the object that a hook is called for, if an extension has a namespaceSelector. It
	// should read from a cache, because the client keeps nothing. Without it, calls that need it fail.
	Reader ctrlclient.Reader

	// Observer is called for each call to a handler, on the caller's goroutine, after all handlers of the hook were
	// called, in their stable order. It should be quick. It is not called for answers from a cache.
	Observer func(record.Call)

	// Certificate returns the client certificate for servers that request one. It is called for each new connection, so
	// the certificate may change. Default: none.
	Certificate func() (*tls.Certificate, error)

	// Dial opens the connection to a server. It is for networks that can't resolve the names of Services: the address of
	// a Service is NAME.NAMESPACE.svc with its port. It is not used for servers behind a proxy. Default: a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Pass is called when handlers hold an object back in [Client.CallAllExtensions], by blocking or by failing. It
	// returns a pass if an administrator lets the object through nevertheless. Package unblock has an implementation that
	// reads an annotation. Default: nothing is let through.
	Pass PassFunc

	// Deadline bounds the total time of all calls of one hook. Default: DefaultDeadline.
	Deadline time.Duration

	// Parallel is how many handlers of one hook are called at the same time. Default: DefaultParallel.
	Parallel int

	// MaxRetryAfter bounds the wait of a handler that blocks: it is called again after at most this time, even if it
	// named a longer one. Calling it early is allowed (CL-13). Whole seconds. Default: DefaultMaxRetryAfter.
	MaxRetryAfter time.Duration

	// Recheck bounds the wait that [Client.CallAllExtensions] returns at a time. Until the handlers' wait is over, the
	// caller gets their held answer again, unless something has changed. Whole seconds. Default: DefaultRecheck.
	Recheck time.Duration

	// LongestPause bounds the pause of an extension whose calls fail. Default: DefaultLongestPause.
	LongestPause time.Duration

	// Metrics registers the client's metrics, see the constants. Default: none are registered.
	Metrics prometheus.Registerer

	// Trace is called at the start of each call to a handler, on the call's goroutine. It gets those fields of the record
	// that are known at that time. The returned headers are sent with the call; end, which may be nil, is called when the
	// call has ended. Package trace has an implementation for OpenTelemetry. Default: none.
	Trace func(ctx context.Context, call record.Call) (header map[string]string, end func(record.Call))
}

// Client calls handlers. Make it with [New]. All methods are safe for concurrent use.
type Client struct {
	options   Options
	registry  *registry.Registry
	endpoints *endpoints
	held      heldAnswers
	metrics   *metrics // nil: none
	stale     atomic.Pointer[func(extension string)]
}

var _ runtimeclient.Client = (*Client)(nil)

// New makes a client that knows no extensions; it is ready after WarmUp.
func New(options Options) (*Client, error) {
	const making = "making a client for runtime extensions"
	for name, value := range map[string]*time.Duration{
		"MaxRetryAfter": &options.MaxRetryAfter, "Recheck": &options.Recheck,
	} {
		if *value%time.Second != 0 {
			return nil, fmt.Errorf("%s: %s is %s: it must be whole seconds, because hooks count in seconds", making,
				name, *value)
		}
	}
	if options.Deadline < 0 || options.Parallel < 0 || options.MaxRetryAfter < 0 || options.Recheck < 0 ||
		options.LongestPause < 0 {
		return nil, fmt.Errorf("%s: Deadline, Parallel, MaxRetryAfter, Recheck and LongestPause must not be negative", making)
	}
	if options.Catalog == nil {
		options.Catalog = hook.ClusterAPI()
	}
	options.Deadline = cmp.Or(options.Deadline, DefaultDeadline)
	options.Parallel = cmp.Or(options.Parallel, DefaultParallel)
	options.MaxRetryAfter = cmp.Or(options.MaxRetryAfter, DefaultMaxRetryAfter)
	options.Recheck = cmp.Or(options.Recheck, DefaultRecheck)
	options.LongestPause = cmp.Or(options.LongestPause, DefaultLongestPause)
	c := &Client{options: options, registry: registry.New(), held: heldAnswers{recheck: options.Recheck}}
	c.endpoints = newEndpoints(transportOptions{
		certificate: options.Certificate, idle: options.Parallel, longest: options.LongestPause,
		proxy: http.ProxyFromEnvironment,
		dial:  options.Dial,
	})
	if options.Metrics != nil {
		var err error
		if c.metrics, err = newMetrics(options.Metrics, options.Catalog, c.endpoints); err != nil {
			return nil, fmt.Errorf("%s: %w", making, err)
		}
	}
	return c, nil
}

// WarmUp registers all ExtensionConfigs and makes the client ready (CL-15). It succeeds only once.
func (c *Client) WarmUp(list *runtimev1.ExtensionConfigList) error {
	if list == nil {
		return errors.New("warming up the client for runtime extensions: the list of ExtensionConfigs is nil")
	}
	return c.registry.WarmUp(list.Items)
}

// IsReady reports whether WarmUp has succeeded.
func (c *Client) IsReady() bool { return c.registry.Ready() }

// Register registers the handlers in the ExtensionConfig's status and replaces those it had before.
func (c *Client) Register(config *runtimev1.ExtensionConfig) error {
	return c.registry.Put(config)
}

// Unregister forgets an ExtensionConfig. Only its name matters.
func (c *Client) Unregister(config *runtimev1.ExtensionConfig) error {
	if config == nil {
		return errors.New("unregistering an extension: the ExtensionConfig is nil")
	}
	if err := c.registry.Remove(config.Name); err != nil {
		return fmt.Errorf("unregistering ExtensionConfig %q: %w", config.Name, err)
	}
	c.endpoints.drop(config.Name)
	if c.metrics != nil {
		c.metrics.forget(config.Name)
	}
	return nil
}

// OnStale sets the function to call when an extension may have been redeployed and should be discovered again. The
// function gets the name of the ExtensionConfig, must return soon, and may be called concurrently. It replaces the
// previous function.
func (c *Client) OnStale(tell func(extension string)) { c.stale.Store(&tell) }

func (c *Client) tellStale(extension string) {
	if tell := c.stale.Load(); tell != nil && *tell != nil {
		(*tell)(extension)
	}
}

// Circuits returns the state of each circuit, by name of the ExtensionConfig. Extensions that were never called are
// missing.
func (c *Client) Circuits() map[string]CircuitState { return c.endpoints.states(time.Now()) }

// Close closes idle connections. The client may still be used afterwards.
func (c *Client) Close() { c.endpoints.closeIdle() }

// GetAllExtensions returns the names of the handlers of a hook that are called for this object, in their stable order.
// It calls no handler. Reconcilers use it before almost every call, so it is cheap: it costs a lookup in memory, and
// one read of the Namespace if an extension of the hook has a namespaceSelector. Appending to the slice is safe;
// changing its elements is not.
func (c *Client) GetAllExtensions(ctx context.Context, runtimeHook runtimecatalog.Hook,
	forObject ctrlclient.Object) ([]string, error) {
	descriptor, err := c.options.Catalog.Lookup(runtimeHook)
	if err != nil {
		return nil, fmt.Errorf("listing handlers: %w", err)
	}
	handlers, err := c.matching(ctx, descriptor, forObject)
	if err != nil {
		return nil, fmt.Errorf("listing handlers of hook %s: %w", descriptor.ID.Name, err)
	}
	return slices.Clip(handlers.Names()), nil
}
