package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/internal/post"
	"github.com/capstan-dev/capstan/runtime/record"
	"github.com/capstan-dev/capstan/runtime/registry"
)

// call is one call to one handler: what it needs, and after run what came of it.
type call struct {
	handler    *registry.Handler
	descriptor *hook.Descriptor // in the version that the caller uses
	conversion *hook.Conversion // nil if the handler serves the same version
	endpoint   *endpoint
	body       []byte
	exchange   post.Call

	// asked is false if the call was not made, because the round had failed before its turn.
	asked bool
	// response is what the caller gets: complete, or nil. It is set beside an error for an answer of status Failure.
	response runtimehooksv1.ResponseObject
	// err is nil if the call counts as a success.
	err    error
	record record.Call
}

// prepare does everything that can fail without calling anybody. Its errors are misconfiguration.
func (c *Client) prepare(to *call, h *registry.Handler, requests *requests) error {
	fail := func(err error) error { return fmt.Errorf("handler %q: %w", h.Name, err) }
	conversion, err := c.options.Catalog.Conversion(requests.descriptor, h.Hook)
	if err != nil {
		return fail(err)
	}
	body, err := requests.body(h, conversion)
	if err != nil {
		return fail(err)
	}
	endpoint := c.endpoints.of(h.Extension)
	to.handler, to.descriptor, to.conversion, to.endpoint, to.body = h, requests.descriptor, conversion, endpoint, body
	return nil
}

// round makes the calls of one question. If one fails, the question has failed: those after it in the order are ended or not made at all, those
// before it go on. So the outcome is always that of the first in the order that fails, however fast the others are.
type round struct {
	client *Client
	ctx    context.Context
	calls  []call
	next   atomic.Int64

	mu    sync.Mutex
	first int // index of the first call that failed
}

// run makes the calls, a bounded number at the same time, and returns when all have ended.
func (c *Client) run(ctx context.Context, calls []call) {
	ctx, cancel := c.withDeadline(ctx)
	defer cancel()
	r := &round{client: c, ctx: ctx, calls: calls, first: len(calls)}
	defer context.AfterFunc(ctx, func() { r.end(0) })()
	var workers sync.WaitGroup
	for range min(c.options.Parallel, len(calls)) - 1 {
		workers.Go(r.work)
	}
	r.work()
	workers.Wait()
}

// work makes calls until there are none left.
func (r *round) work() {
	for {
		i := int(r.next.Add(1)) - 1
		if i >= len(r.calls) || r.failedBefore(i) {
			return
		}
		r.call(i)
		if r.calls[i].err != nil {
			r.fail(i)
		}
	}
}

// fail says that a call has failed, and ends those after it.
func (r *round) fail(i int) {
	r.mu.Lock()
	if i >= r.first {
		r.mu.Unlock()
		return
	}
	r.first = i
	r.mu.Unlock()
	r.end(i + 1)
}

// failedBefore tells whether the outcome is known without this call.
func (r *round) failedBefore(i int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.first < i
}

// end ends the calls from this one on.
func (r *round) end(from int) {
	for i := from; i < len(r.calls); i++ {
		r.calls[i].exchange.End()
	}
}

// call makes one call and judges what came of it.
func (r *round) call(i int) {
	c, one, start := r.client, &r.calls[i], time.Now()
	one.asked = true
	one.record = record.Call{
		Time: start, Hook: one.handler.HookName, Extension: one.handler.Extension.Name, Handler: one.handler.Local,
	}
	var header map[string]string
	var end func(record.Call)
	if c.options.Trace != nil {
		header, end = c.options.Trace(r.ctx, one.record)
	}
	var response runtimehooksv1.ResponseObject
	err := one.endpoint.circuit.enter(start)
	if err != nil {
		one.record.NotAsked = true
	} else {
		response, err = one.ask(r.ctx, start, header)
		err = r.conclude(i, response, err)
		c.learn(one, err)
		one.record.Duration = time.Since(start)
	}
	one.judge(response, err, c.options.MaxRetryAfter)
	if end != nil {
		end(one.record)
	}
}

// ask sends the request and decodes the answer, in the version that the caller uses.
func (r *call) ask(ctx context.Context, start time.Time, header map[string]string) (runtimehooksv1.ResponseObject, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	served := r.descriptor
	if r.conversion != nil {
		served = r.conversion.Served()
	}
	response := served.NewResponse()
	err := r.endpoint.exchange(ctx, &r.exchange, exchange{
		served: served, target: r.handler.Target, timeout: r.handler.Timeout, start: start, header: header, body: r.body,
	}, response)
	if err != nil {
		return nil, err
	}
	if r.conversion == nil {
		return response, nil
	}
	newest, err := r.conversion.Up(response)
	if err != nil {
		return nil, &misconfiguredError{err}
	}
	return newest, nil
}

// conclude looks at what the handler says, and at whether anybody still listened.
func (r *round) conclude(i int, response runtimehooksv1.ResponseObject, err error) error {
	if err == nil {
		return checkAnswer(response)
	}
	if cause := context.Cause(r.ctx); cause != nil {
		// The caller has given up, or all handlers together took too long. That is no failure of this extension that its
		// policy could excuse, and nobody may take it for a success.
		return &callerError{cause}
	}
	if r.failedBefore(i) {
		return &canceledError{}
	}
	return err
}

// learn tells the circuit what the call says about the extension, and others if its handlers may have changed.
func (c *Client) learn(one *call, err error) {
	var said *statusError
	var misconfigured *misconfiguredError
	var caller *callerError
	var canceled *canceledError
	var gone *unknownHandlerError
	o := failed
	switch {
	case err == nil, errors.As(err, &said), errors.As(err, &misconfigured), errors.As(err, &gone):
		o = worked
	case errors.As(err, &caller), errors.As(err, &canceled):
		o = unknown
	}
	recovered := one.endpoint.circuit.leave(time.Now(), o, err)
	if recovered || errors.As(err, &gone) || o == worked && one.exchange.Resent() {
		c.tellStale(one.handler.Extension.Name)
	}
}

// judge applies the failure policy (CL-04, CL-05, CL-20).
func (r *call) judge(response runtimehooksv1.ResponseObject, err error, maxRetryAfter time.Duration) {
	failure := func(err error) *CallError { return &CallError{Hook: r.handler.Hook, Handler: r.handler.Name, Err: err} }
	var misconfigured *misconfiguredError
	var said *statusError
	var caller *callerError
	var canceled *canceledError
	switch {
	case err == nil:
		r.response = response
		r.record.Answer, r.record.Message = record.Success, response.GetMessage()
		if retry, ok := response.(runtimehooksv1.RetryResponseObject); ok && retry.GetRetryAfterSeconds() != 0 {
			r.record.Answer = record.Blocked
			r.record.RetryAfter = time.Duration(retry.GetRetryAfterSeconds()) * time.Second
			retry.SetRetryAfterSeconds(min(retry.GetRetryAfterSeconds(), wholeSeconds(maxRetryAfter)))
		}
		return
	case errors.As(err, &canceled):
		r.err = failure(err)
		r.record.Answer, r.record.Err = record.Canceled, r.err
		return
	case errors.As(err, &said):
		r.response = response
		r.record.Message = response.GetMessage()
		r.err = failure(err)
	case errors.As(err, &caller):
		r.err = failure(caller.cause)
	case !errors.As(err, &misconfigured) && r.handler.IgnoreFailures:
		r.response = r.descriptor.NewResponse()
		r.response.SetStatus(runtimehooksv1.ResponseStatusSuccess)
		r.record.Answer, r.record.Err = record.Ignored, failure(err)
		return
	default:
		r.err = failure(err)
	}
	r.record.Answer, r.record.Err = record.Failure, r.err
}
