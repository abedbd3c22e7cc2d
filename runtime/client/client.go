// Package client calls the handlers of runtime extensions.
//
// [Client] implements Cluster API's public interface for that, sigs.k8s.io/cluster-api/exp/runtime/client.Client, so
// its reconcilers take it as it is:
//
//	calls, err := client.New(client.Options{Reader: mgr.GetClient(), Observer: journal})
//	...
//	(&controllers.ClusterTopologyReconciler{RuntimeClient: calls, ...}).SetupWithManager(...)
//
// # What a call does
//
// One call of [Client.CallAllExtensions] asks all handlers of the hook whose selectors match, a bounded number of them
// at the same time, each for at most its own timeout and all together for at most [Options.Deadline]. The request is
// encoded once for all handlers that get the same settings; it is not kept and not changed. Answers are joined in the
// registry's order, so the same answers give the same message; the shortest retryAfterSeconds wins (CL-11). If a
// handler fails, those after it in that order are not asked, or no longer waited for; the error is always that of the
// first in the order that fails.
//
// If the joined answer blocks, it is held until the shortest wait that a handler has named is over: whoever asks before
// gets it again without a call, with the wait that is left. A changed request, object or ExtensionConfig is asked about
// at once. Reconcilers that sleep through the whole wait that they are given, as those of Cluster API do, are given at
// most [Options.Recheck] at a time, so they notice.
//
// # What can go wrong
//
//   - The call fails: no connection, a certificate that is not trusted, no answer in time, a status other than 200, a
//     redirect, a body that is too large or is not the hook's response. With failure policy Fail this is an error, with
//     Ignore it counts as an empty Success (CL-04). Nothing of a body that failed to decode is ever used.
//   - The handler answers status Failure, or a status that does not exist: an error whatever the policy (CL-05, CL-20).
//   - The caller's own context ends, or the deadline of all calls together: an error whatever the policy; it says
//     nothing about the extension.
//   - Something is configured wrong, for example the handler serves another hook: an error whatever the policy.
//
// An extension whose calls fail five times in a row is left alone for a second, and for twice as long after each
// further failure, up to [Options.LongestPause]. Meanwhile calls fail with the last error at once; the failure policy
// applies. One call finds out whether it works again.
//
// An extension that answers again, that has closed its connections, or that answers 404 for a handler, may have been
// deployed anew: [Client.OnStale] tells who has to discover it.
//
// Errors of calls are of type [*CallError]. Their texts are stable: the same failure gives the same text, without times
// and port numbers, because they land in conditions.
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
	// DefaultDeadline bounds all calls of one hook together.
	DefaultDeadline = 60 * time.Second
	// DefaultParallel is how many handlers of one hook are asked at the same time. Extensions mostly wait for others: more
	// of them than processors is right.
	DefaultParallel = 32
	// DefaultMaxRetryAfter is the longest wait that a handler can ask for.
	DefaultMaxRetryAfter = 5 * time.Minute
	// DefaultRecheck is the longest wait that is handed to the caller at a time.
	DefaultRecheck = 15 * time.Second
	// DefaultLongestPause is the longest time for which an extension that does not work is left alone.
	DefaultLongestPause = 30 * time.Second
)

// Options of a Client. The zero value works for extensions without a namespaceSelector.
type Options struct {
	// Catalog of the hooks that can be called. Default: those of Cluster API.
	Catalog *hook.Catalog

	// Reader reads the Namespace of the object that a hook is called for, if an extension has a namespaceSelector. A
	// cached one is best: the client keeps nothing. Without it, calls that would need it fail.
	Reader ctrlclient.Reader

	// Observer is told of each call to a handler, after all handlers of the hook were called and in their stable order, on
	// the caller's goroutine. It should be quick. Answers from a cache are not told: nobody was called.
	Observer func(record.Call)

	// Certificate gives the client certificate for servers that ask for one. It is asked for at each new connection, so it
	// may change. Default: none.
	Certificate func() (*tls.Certificate, error)

	// Dial opens the connection to a server, for networks without the names of Services: the address of a Service is
	// NAME.NAMESPACE.svc with its port. It is not asked for servers behind a proxy. Default: that of a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Pass is asked when handlers hold an object back, by an answer that blocks or by a failure, in
	// [Client.CallAllExtensions]: whether an administrator lets it through all the same. Package unblock has one that
	// reads an annotation. Default: nobody does.
	Pass PassFunc

	// Deadline bounds all calls of one hook together. Default: DefaultDeadline.
	Deadline time.Duration

	// Parallel is how many handlers of one hook are asked at the same time. Default: DefaultParallel.
	Parallel int

	// MaxRetryAfter bounds the wait of a handler that blocks: it is asked again after that time, whatever it has said.
	// Asking earlier is allowed (CL-13). Whole seconds. Default: DefaultMaxRetryAfter.
	MaxRetryAfter time.Duration

	// Recheck bounds the wait that is handed to the caller of [Client.CallAllExtensions] at a time. Until the handlers'
	// wait is over, the caller gets their answer again, unless something has changed. Whole seconds. Default:
	// DefaultRecheck.
	Recheck time.Duration

	// LongestPause bounds for how long an extension whose calls fail is left alone. Default: DefaultLongestPause.
	LongestPause time.Duration

	// Metrics is where metrics are registered, see the constants. Default: none.
	Metrics prometheus.Registerer

	// Trace is called at the start of each call to a handler, with what is known by then, on the goroutine of the call.
	// The headers that it gives are sent with the call; end, which may be nil, is called when the call has ended. Package
	// trace has one for OpenTelemetry. Default: none.
	Trace func(ctx context.Context, call record.Call) (header map[string]string, end func(record.Call))
}

// Client calls handlers. Make it with [New]. All methods may be called at the same time.
type Client struct {
	options   Options
	registry  *registry.Registry
	endpoints *endpoints
	held      heldAnswers
	metrics   *metrics // nil: none
	stale     atomic.Pointer[func(extension string)]
}

var _ runtimeclient.Client = (*Client)(nil)

// New makes a client that knows no extension yet: it is ready after WarmUp.
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

// WarmUp registers all ExtensionConfigs and makes the client ready (CL-15). It succeeds once.
func (c *Client) WarmUp(list *runtimev1.ExtensionConfigList) error {
	if list == nil {
		return errors.New("warming up the client for runtime extensions: the list of ExtensionConfigs is nil")
	}
	return c.registry.WarmUp(list.Items)
}

// IsReady tells whether WarmUp has succeeded.
func (c *Client) IsReady() bool { return c.registry.Ready() }

// Register registers the handlers in the ExtensionConfig's status, in place of those that it had before.
func (c *Client) Register(config *runtimev1.ExtensionConfig) error {
	return c.registry.Put(config)
}

// Unregister forgets an ExtensionConfig. Only its name is looked at.
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

// OnStale says whom to tell that an extension may have been deployed anew, so that it should be discovered again. The
// function gets the name of the ExtensionConfig, must return soon, and may be called from several goroutines. It
// replaces the one before.
func (c *Client) OnStale(tell func(extension string)) { c.stale.Store(&tell) }

func (c *Client) tellStale(extension string) {
	if tell := c.stale.Load(); tell != nil && *tell != nil {
		(*tell)(extension)
	}
}

// Circuits tells which extensions are asked, by name of the ExtensionConfig; those that were never asked are missing.
func (c *Client) Circuits() map[string]CircuitState { return c.endpoints.states(time.Now()) }

// Close closes the connections that nobody uses. A client that is closed may still be used.
func (c *Client) Close() { c.endpoints.closeIdle() }

// GetAllExtensions gives the names of the handlers of a hook that are called for this object, in their stable order. No
// handler is called. It costs a look-up in memory, and one read of the Namespace if an extension of the hook has a
// namespaceSelector: it runs before almost every call. Appending to the slice is fine, changing its elements is not.
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
