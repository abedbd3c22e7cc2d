package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimeclient "sigs.k8s.io/cluster-api/exp/runtime/client"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/record"
	"github.com/capstan-dev/capstan/runtime/registry"
)

// CallAllExtensions calls all handlers of a hook whose selectors match the object. If all succeed, the response becomes
// Success with their messages joined and the shortest nonzero retryAfterSeconds; all its other fields are cleared.
// Otherwise the response stays unchanged, and the error is that of the first failing handler in the registry's order.
func (c *Client) CallAllExtensions(ctx context.Context, runtimeHook runtimecatalog.Hook, forObject ctrlclient.Object,
	request runtimehooksv1.RequestObject, response runtimehooksv1.ResponseObject,
) error {
	descriptor, err := c.check(runtimeHook, response)
	if err != nil {
		return fmt.Errorf("calling handlers: %w", err)
	}
	joined, err := c.callAll(ctx, descriptor, forObject, request)
	if err != nil {
		return fmt.Errorf("calling handlers of hook %s: %w", descriptor.ID.Name, err)
	}
	return descriptor.SetResponse(response, joined)
}

func (c *Client) callAll(ctx context.Context, descriptor *hook.Descriptor, object ctrlclient.Object,
	request runtimehooksv1.RequestObject,
) (runtimehooksv1.ResponseObject, error) {
	handlers, err := c.matching(ctx, descriptor, object)
	if err != nil {
		return nil, err
	}
	q, err := c.newQuestion(descriptor, object, request)
	if err != nil {
		return nil, err
	}
	defer q.release()
	if err := c.address(q, handlers.All()...); err != nil {
		return nil, err
	}
	if again := c.held.again(q); again != nil {
		return again, nil
	}
	outcomes := c.run(ctx, q)
	c.passOver(ctx, q, outcomes)
	c.report(ctx, q, outcomes)
	joined, err := join(q, outcomes)
	if err != nil {
		c.held.forget(q)
		return nil, err
	}
	c.held.hold(q, joined)
	return joined, nil
}

// CallExtension calls the handler with this unique name. On success, its answer replaces the whole response. If its
// answer has status Failure, CallExtension replaces the response too, but returns an error. Any other error leaves the
// response unchanged. With the option WithCaching, successful answers that do not block are cached and returned again
// for an equal request.
func (c *Client) CallExtension(ctx context.Context, runtimeHook runtimecatalog.Hook, forObject ctrlclient.Object,
	name string,
	request runtimehooksv1.RequestObject, response runtimehooksv1.ResponseObject,
	opts ...runtimeclient.CallExtensionOption,
) error {
	descriptor, err := c.check(runtimeHook, response)
	if err != nil {
		return fmt.Errorf("calling handler %q: %w", name, err)
	}
	fail := func(err error) error {
		return fmt.Errorf("calling handler %q of hook %s: %w", name, descriptor.ID.Name, err)
	}
	handler, err := c.handlerFor(ctx, descriptor, forObject, name)
	if err != nil {
		return fail(err)
	}
	q, err := c.newQuestion(descriptor, forObject, request)
	if err != nil {
		return fail(err)
	}
	defer q.release()
	cache, err := newAnswerCache(handler, q.requests, opts)
	if err != nil {
		return fail(err)
	}
	if cached, ok := cache.get(); ok {
		return descriptor.SetResponse(response, cached)
	}
	if err := c.address(q, handler); err != nil {
		return fmt.Errorf("calling hook %s: %w", descriptor.ID.Name, err)
	}
	outcomes := c.run(ctx, q)
	c.report(ctx, q, outcomes)
	one := &outcomes[0]
	if one.response != nil {
		if err := descriptor.SetResponse(response, one.response); err != nil {
			return err
		}
	}
	if one.err != nil {
		return fmt.Errorf("calling hook %s: %w", descriptor.ID.Name, one.err)
	}
	if one.record.Answer == record.Success { // neither an ignored failure nor a block
		cache.put(one.response)
	}
	return nil
}

// check finds the hook, and checks that the caller's response can take an answer before any handler is called.
func (c *Client) check(runtimeHook runtimecatalog.Hook,
	response runtimehooksv1.ResponseObject) (*hook.Descriptor, error) {
	descriptor, err := c.options.Catalog.Lookup(runtimeHook)
	if err != nil {
		return nil, err
	}
	if !descriptor.HasSettings {
		return nil, fmt.Errorf("hook %s has no handlers to call", descriptor.ID)
	}
	return descriptor, descriptor.CheckResponse(response)
}

func (c *Client) handlerFor(ctx context.Context, descriptor *hook.Descriptor, object ctrlclient.Object,
	name string) (*registry.Handler, error) {
	if object == nil {
		return nil, errors.New("the object that the hook is called for is nil")
	}
	handler, err := c.registry.Handler(name)
	if err != nil {
		return nil, err
	}
	if handler.Hook.Family() != descriptor.ID.Family() {
		return nil, fmt.Errorf("it serves another hook, %s", handler.Hook)
	}
	if err := c.selects(ctx, handler.Extension, object); err != nil {
		return nil, err
	}
	return handler, nil
}

func wholeSeconds(d time.Duration) int32 { return int32(d / time.Second) }
