package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimeclient "sigs.k8s.io/cluster-api/exp/runtime/client"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/record"
	"github.com/capstan-dev/capstan/runtime/registry"
)

var errDeadline = errors.New("the deadline for all handlers of the hook together has passed")

// CallAllExtensions asks all handlers of a hook whose namespaceSelector matches the object's namespace. If all succeed, the response
// becomes Success with their messages joined and the shortest retryAfterSeconds that is not zero; everything else in it
// becomes empty. Otherwise the response stays as it is, and the error joins those of all handlers that failed.
func (c *Client) CallAllExtensions(ctx context.Context, runtimeHook runtimecatalog.Hook, forObject ctrlclient.Object,
	request runtimehooksv1.RequestObject, response runtimehooksv1.ResponseObject,
) error {
	descriptor, err := c.check(runtimeHook, response)
	if err != nil {
		return fmt.Errorf("calling handlers: %w", err)
	}
	responses, err := c.callAll(ctx, descriptor, forObject, request)
	if err != nil {
		return fmt.Errorf("calling handlers of hook %s: %w", descriptor.ID.Name, err)
	}
	return descriptor.SetResponse(response, joinResponses(descriptor, responses))
}

func (c *Client) callAll(ctx context.Context, descriptor *hook.Descriptor, forObject ctrlclient.Object,
	request runtimehooksv1.RequestObject,
) ([]runtimehooksv1.ResponseObject, error) {
	handlers, err := c.matching(ctx, descriptor, forObject)
	if err != nil {
		return nil, err
	}
	requests := requests{catalog: c.options.Catalog, descriptor: descriptor, request: request}
	calls := make([]*call, len(handlers))
	for i, h := range handlers {
		if calls[i], err = c.prepare(h, &requests); err != nil {
			return nil, err
		}
	}
	c.run(ctx, calls)
	c.report(ctx, forObject, calls)

	responses := make([]runtimehooksv1.ResponseObject, 0, len(calls))
	var errs []error
	for _, call := range calls {
		if call.err != nil {
			errs = append(errs, call.err)
			continue
		}
		responses = append(responses, call.response)
	}
	return responses, joinErrors(errs)
}

// CallExtension asks the handler with this unique name. On success the response is replaced by its answer as a whole. On an answer of
// status Failure it is too, and there is an error; on any other error it stays as it is. With the option WithCaching, answers of
// Success that do not block are kept and given again for an equal request.
func (c *Client) CallExtension(ctx context.Context, runtimeHook runtimecatalog.Hook, forObject ctrlclient.Object, name string,
	request runtimehooksv1.RequestObject, response runtimehooksv1.ResponseObject, opts ...runtimeclient.CallExtensionOption,
) error {
	descriptor, err := c.check(runtimeHook, response)
	if err != nil {
		return fmt.Errorf("calling handler %q: %w", name, err)
	}
	handler, err := c.handlerFor(ctx, descriptor, forObject, name)
	if err != nil {
		return fmt.Errorf("calling handler %q of hook %s: %w", name, descriptor.ID.Name, err)
	}
	requests := requests{catalog: c.options.Catalog, descriptor: descriptor, request: request}
	cache, err := newAnswerCache(handler, &requests, opts)
	if err != nil {
		return fmt.Errorf("calling handler %q of hook %s: %w", name, descriptor.ID.Name, err)
	}
	if cached, ok := cache.get(); ok {
		return descriptor.SetResponse(response, cached)
	}
	one, err := c.prepare(handler, &requests)
	if err != nil {
		return fmt.Errorf("calling hook %s: %w", descriptor.ID.Name, err)
	}
	c.run(ctx, []*call{one})
	c.report(ctx, forObject, []*call{one})
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

// check finds the hook, and makes sure that the caller's response can take an answer before anybody is called.
func (c *Client) check(runtimeHook runtimecatalog.Hook, response runtimehooksv1.ResponseObject) (*hook.Descriptor, error) {
	descriptor, err := c.options.Catalog.Lookup(runtimeHook)
	if err != nil {
		return nil, err
	}
	if !descriptor.HasSettings {
		return nil, fmt.Errorf("hook %s has no handlers to call", descriptor.ID)
	}
	return descriptor, descriptor.CheckResponse(response)
}

func (c *Client) handlerFor(ctx context.Context, descriptor *hook.Descriptor, object ctrlclient.Object, name string) (*registry.Handler, error) {
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
	namespace := namespaceLabels{reader: c.options.Reader, name: object.GetNamespace()}
	matches, err := namespace.match(ctx, handler.Extension.Namespaces)
	if err != nil {
		return nil, err
	}
	if !matches {
		return nil, fmt.Errorf("the namespaceSelector of ExtensionConfig %q does not match namespace %q", handler.Extension.Name, object.GetNamespace())
	}
	return handler, nil
}

// report tells the log and the observer, in the order of the calls.
func (c *Client) report(ctx context.Context, object ctrlclient.Object, calls []*call) {
	logger := log.FromContext(ctx)
	for _, call := range calls {
		call.record.Object = objectOf(object)
		values := []any{
			"hook", call.record.Hook, "handler", call.handler.Name, "answer", call.record.Answer,
			"retryAfter", call.record.RetryAfter.String(), "message", call.record.Message, "duration", call.record.Duration.String(),
		}
		switch call.record.Answer {
		case record.Failure:
			logger.Error(call.record.Err, "A runtime extension failed", values...)
		case record.Ignored:
			logger.Error(call.record.Err, "A runtime extension failed, which its failure policy ignores", values...)
		default:
			logger.V(4).Info("A runtime extension answered", values...)
		}
		if c.options.Observer != nil {
			c.options.Observer(call.record)
		}
	}
}

// objectOf names an object. Typed objects seldom carry their kind; their Go type has its name.
func objectOf(object ctrlclient.Object) record.Object {
	kind := object.GetObjectKind().GroupVersionKind().Kind
	if kind == "" {
		goType := fmt.Sprintf("%T", object)
		kind = goType[strings.LastIndexByte(goType, '.')+1:]
	}
	return record.Object{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()}
}

func (c *Client) withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.options.Deadline, errDeadline)
}

func wholeSeconds(d time.Duration) int32 { return int32(d / time.Second) }
