package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
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

// CallAllExtensions asks all handlers of a hook whose selectors match the object. If all succeed, the response becomes Success with their
// messages joined and the shortest retryAfterSeconds that is not zero; everything else in it becomes empty. Otherwise the response stays as
// it is, and the error is that of the first handler that failed, in the registry's order.
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
	requests, err := newRequests(c.options.Catalog, descriptor, request)
	if err != nil {
		return nil, err
	}
	defer requests.release()
	calls := make([]call, len(handlers.All()))
	for i, h := range handlers.All() {
		if err := c.prepare(&calls[i], h, requests); err != nil {
			return nil, err
		}
	}
	key := heldKeyOf(descriptor, object)
	if again := c.heldAnswer(descriptor, key, calls); again != nil {
		return again, nil
	}
	c.run(ctx, calls)
	c.passOver(ctx, descriptor, object, calls)
	c.report(ctx, object, calls)

	responses := make([]runtimehooksv1.ResponseObject, 0, len(calls))
	for i := range calls {
		if calls[i].err != nil {
			c.held.drop(key)
			return nil, calls[i].err
		}
		responses = append(responses, calls[i].response)
	}
	joined := joinResponses(descriptor, responses)
	c.hold(descriptor, key, calls, joined)
	return joined, nil
}

// heldAnswer gives the answer that blocks and still holds, nil if there is none.
func (c *Client) heldAnswer(descriptor *hook.Descriptor, key heldKey, calls []call) runtimehooksv1.ResponseObject {
	now := time.Now()
	if !descriptor.CanWait || !c.held.has(key, now) {
		return nil
	}
	response, left := c.held.get(key, fingerprintOf(calls), now)
	if response == nil {
		return nil
	}
	again := response.DeepCopyObject().(runtimehooksv1.RetryResponseObject)
	again.SetRetryAfterSeconds(c.recheck(left))
	return again
}

// hold remembers an answer if it blocks, and shortens the wait in it.
func (c *Client) hold(descriptor *hook.Descriptor, key heldKey, calls []call, joined runtimehooksv1.ResponseObject) {
	if !descriptor.CanWait {
		return
	}
	retry, ok := joined.(runtimehooksv1.RetryResponseObject)
	if !ok || retry.GetRetryAfterSeconds() == 0 {
		c.held.drop(key)
		return
	}
	now, wait := time.Now(), time.Duration(retry.GetRetryAfterSeconds())*time.Second
	c.held.put(key, held{
		fingerprint: fingerprintOf(calls), until: now.Add(wait), response: joined.DeepCopyObject().(runtimehooksv1.ResponseObject),
	}, now)
	retry.SetRetryAfterSeconds(c.recheck(wait))
}

// recheck gives the wait for the caller, in seconds, rounded up: zero would mean that nobody blocks.
func (c *Client) recheck(left time.Duration) int32 {
	return wholeSeconds(min(left+time.Second-1, c.options.Recheck))
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
	fail := func(err error) error {
		return fmt.Errorf("calling handler %q of hook %s: %w", name, descriptor.ID.Name, err)
	}
	handler, err := c.handlerFor(ctx, descriptor, forObject, name)
	if err != nil {
		return fail(err)
	}
	requests, err := newRequests(c.options.Catalog, descriptor, request)
	if err != nil {
		return fail(err)
	}
	defer requests.release()
	cache, err := newAnswerCache(handler, requests, opts)
	if err != nil {
		return fail(err)
	}
	if cached, ok := cache.get(); ok {
		return descriptor.SetResponse(response, cached)
	}
	calls := make([]call, 1)
	one := &calls[0]
	if err := c.prepare(one, handler, requests); err != nil {
		return fmt.Errorf("calling hook %s: %w", descriptor.ID.Name, err)
	}
	c.run(ctx, calls)
	c.report(ctx, forObject, calls)
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
	if err := c.selects(ctx, handler.Extension, object); err != nil {
		return nil, err
	}
	return handler, nil
}

// report tells the log, the metrics and the observer, in the order of the calls.
func (c *Client) report(ctx context.Context, object ctrlclient.Object, calls []call) {
	logger := log.FromContext(ctx)
	detailed := logger.V(4).Enabled()
	about := objectOf(object)
	for i := range calls {
		call := &calls[i]
		if !call.asked {
			continue
		}
		call.record.Object = about
		if failure := call.record.Answer == record.Failure || call.record.Answer == record.Ignored; failure || detailed {
			logCall(logger, call)
		}
		if c.metrics != nil {
			c.metrics.observe(call.handler, call.record)
		}
		if c.options.Observer != nil {
			c.options.Observer(call.record)
		}
	}
}

func logCall(logger logr.Logger, call *call) {
	logger = logger.WithValues(
		"hook", call.record.Hook, "handler", call.handler.Name, "answer", call.record.Answer, "notAsked", call.record.NotAsked,
		"retryAfter", call.record.RetryAfter.String(), "message", call.record.Message, "duration", call.record.Duration.String(),
	)
	switch call.record.Answer {
	case record.Failure:
		logger.Error(call.record.Err, "A runtime extension failed")
	case record.Ignored:
		logger.Error(call.record.Err, "A runtime extension failed, which its failure policy ignores")
	default:
		logger.V(4).Info("A runtime extension answered")
	}
}

// objectOf names an object. Typed objects seldom carry their kind; their Go type has its name.
func objectOf(object ctrlclient.Object) record.Object {
	kind := object.GetObjectKind().GroupVersionKind().Kind
	if _, ok := object.(*clusterv1.Cluster); ok {
		kind = "Cluster" // nearly all of them
	} else if kind == "" {
		goType := fmt.Sprintf("%T", object)
		kind = goType[strings.LastIndexByte(goType, '.')+1:]
	}
	return record.Object{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()}
}

func (c *Client) withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.options.Deadline, errDeadline)
}

func wholeSeconds(d time.Duration) int32 { return int32(d / time.Second) }
