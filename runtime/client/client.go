// Package client calls the handlers of runtime extensions.
//
// [Client] implements Cluster API's public interface for that, sigs.k8s.io/cluster-api/exp/runtime/client.Client, so its
// reconcilers take it as it is:
//
//	calls, err := client.New(client.Options{Reader: mgr.GetClient(), Observer: journal})
//	...
//	(&controllers.ClusterTopologyReconciler{RuntimeClient: calls, ...}).SetupWithManager(...)
//
// # What a call does
//
// One call of [Client.CallAllExtensions] asks all handlers of the hook whose namespaceSelector matches, a bounded number of them
// at the same time, each for at most its own timeout and all together for at most [Options.Deadline]. It waits for all. The request is
// encoded once for all handlers that get the same settings; it is not kept and not changed. Answers are joined in the registry's order,
// so the same answers give the same message; the shortest retryAfterSeconds wins (CL-11).
//
// # What can go wrong
//
//   - The call fails: no connection, a certificate that is not trusted, no answer in time, a status other than 200, a redirect, a body
//     that is too large or is not the hook's response. With failure policy Fail this is an error, with Ignore it counts as an empty
//     Success (CL-04). Nothing of a body that failed to decode is ever used.
//   - The handler answers status Failure, or a status that does not exist: an error whatever the policy (CL-05, CL-20).
//   - The caller's own context ends, or the deadline of all calls together: an error whatever the policy; it says nothing about the
//     extension.
//   - Something is configured wrong, for example the handler serves another hook: an error whatever the policy.
//
// Errors of calls are of type [*CallError]. Their texts are stable: the same failure gives the same text, without times and
// port numbers, because they land in conditions.
package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

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
	// DefaultParallel is how many handlers of one hook are asked at the same time.
	DefaultParallel = 8
	// DefaultMaxRetryAfter is the longest wait that is handed to the caller.
	DefaultMaxRetryAfter = 5 * time.Minute
)

// Options of a Client. The zero value works for extensions without a namespaceSelector.
type Options struct {
	// Catalog of the hooks that can be called. Default: those of Cluster API.
	Catalog *hook.Catalog

	// Reader reads the Namespace of the object that a hook is called for, if an extension has a namespaceSelector. A cached
	// one is best: the client keeps nothing. Without it, calls that would need it fail.
	Reader ctrlclient.Reader

	// Observer is told of each call to a handler, after all handlers of the hook were called and in their stable order, on the caller's
	// goroutine. It should be quick. Answers from a cache are not told: nobody was called.
	Observer func(record.Call)

	// Certificate gives the client certificate for servers that ask for one. It is asked for at each new connection, so it may
	// change. Default: none.
	Certificate func() (*tls.Certificate, error)

	// Deadline bounds all calls of one hook together. Default: DefaultDeadline.
	Deadline time.Duration

	// Parallel is how many handlers of one hook are asked at the same time. Default: DefaultParallel.
	Parallel int

	// MaxRetryAfter bounds the wait that is handed to the caller when a handler blocks: Cluster API's reconcilers do not ask
	// again before it ends, even if the Cluster or the extension changes. Asking earlier is allowed (CL-13). Whole seconds.
	// Default: DefaultMaxRetryAfter.
	MaxRetryAfter time.Duration
}

// Client calls handlers. Make it with [New]. All methods may be called at the same time.
type Client struct {
	options   Options
	registry  *registry.Registry
	endpoints *endpoints
}

var _ runtimeclient.Client = (*Client)(nil)

// New makes a client that knows no extension yet: it is ready after WarmUp.
func New(options Options) (*Client, error) {
	if options.Deadline < 0 || options.Parallel < 0 || options.MaxRetryAfter < 0 {
		return nil, errors.New("making a client for runtime extensions: Deadline, Parallel and MaxRetryAfter must not be negative")
	}
	if options.MaxRetryAfter%time.Second != 0 {
		return nil, errors.New("making a client for runtime extensions: MaxRetryAfter must be whole seconds, because hooks count in seconds")
	}
	if options.Catalog == nil {
		options.Catalog = hook.ClusterAPI()
	}
	if options.Deadline == 0 {
		options.Deadline = DefaultDeadline
	}
	if options.Parallel == 0 {
		options.Parallel = DefaultParallel
	}
	if options.MaxRetryAfter == 0 {
		options.MaxRetryAfter = DefaultMaxRetryAfter
	}
	return &Client{
		options:   options,
		registry:  registry.New(),
		endpoints: newEndpoints(transportOptions{certificate: options.Certificate, idle: options.Parallel}),
	}, nil
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
	return nil
}

// Close closes the connections that nobody uses. A client that is closed may still be used.
func (c *Client) Close() { c.endpoints.closeIdle() }

// GetAllExtensions gives the names of the handlers of a hook that are called for this object, in their stable order. No
// handler is called. It costs one look-up in memory, and one read of the Namespace if an extension has a namespaceSelector.
func (c *Client) GetAllExtensions(ctx context.Context, runtimeHook runtimecatalog.Hook, forObject ctrlclient.Object) ([]string, error) {
	descriptor, err := c.options.Catalog.Lookup(runtimeHook)
	if err != nil {
		return nil, fmt.Errorf("listing handlers: %w", err)
	}
	handlers, err := c.matching(ctx, descriptor, forObject)
	if err != nil {
		return nil, fmt.Errorf("listing handlers of hook %s: %w", descriptor.ID.Name, err)
	}
	names := make([]string, len(handlers))
	for i, h := range handlers {
		names[i] = h.Name
	}
	return names, nil
}
