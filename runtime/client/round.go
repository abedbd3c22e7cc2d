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

	// response is what the caller gets: complete, or nil. It is set beside an error for an answer of status Failure.
	response runtimehooksv1.ResponseObject
	// err is nil if the call counts as a success.
	err    error
	record record.Call
}

// prepare does everything that can fail without calling anybody. Its errors are misconfiguration.
func (c *Client) prepare(h *registry.Handler, requests *requests) (*call, error) {
	fail := func(err error) (*call, error) { return nil, fmt.Errorf("handler %q: %w", h.Name, err) }
	conversion, err := c.options.Catalog.Conversion(requests.descriptor, h.Hook)
	if err != nil {
		return fail(err)
	}
	body, err := requests.body(h, conversion)
	if err != nil {
		return fail(err)
	}
	endpoint, err := c.endpoints.of(h.Extension)
	if err != nil {
		return fail(err)
	}
	return &call{handler: h, descriptor: requests.descriptor, conversion: conversion, endpoint: endpoint, body: body}, nil
}

// run makes the calls, a bounded number at the same time, and returns when all have ended.
func (c *Client) run(ctx context.Context, calls []*call) {
	ctx, cancel := c.withDeadline(ctx)
	defer cancel()
	if len(calls) == 1 {
		calls[0].run(ctx, c.options.MaxRetryAfter)
		return
	}
	var workers sync.WaitGroup
	var next atomic.Int64
	for range min(c.options.Parallel, len(calls)) {
		workers.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(calls) {
					return
				}
				calls[i].run(ctx, c.options.MaxRetryAfter)
			}
		})
	}
	workers.Wait()
}

// run makes one call and judges what came of it.
func (r *call) run(ctx context.Context, maxRetryAfter time.Duration) {
	start := time.Now()
	r.record = record.Call{
		Time: start, Hook: r.handler.Hook.String(), Extension: r.handler.Extension.Name, Handler: r.handler.Local,
	}
	response, err := r.exchange(ctx)
	r.record.Duration = time.Since(start)
	r.judge(ctx, response, err, maxRetryAfter)
}

// exchange sends the request and decodes the answer, in the version that the caller uses.
func (r *call) exchange(ctx context.Context) (runtimehooksv1.ResponseObject, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	served := r.descriptor
	if r.conversion != nil {
		served = r.conversion.Served()
	}
	response := served.NewResponse()
	if err := r.endpoint.exchange(ctx, served, r.handler.Local, r.handler.Timeout, r.body, response); err != nil {
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

// judge applies the failure policy (CL-04, CL-05, CL-20).
func (r *call) judge(ctx context.Context, response runtimehooksv1.ResponseObject, err error, maxRetryAfter time.Duration) {
	if err == nil {
		err = checkAnswer(response)
	}
	failure := func(err error) *CallError { return &CallError{Hook: r.handler.Hook, Handler: r.handler.Name, Err: err} }
	var misconfigured *misconfiguredError
	var status *statusError
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
	case errors.As(err, &status):
		r.response = response
		r.record.Message = response.GetMessage()
		r.err = failure(err)
	case errors.As(err, &misconfigured):
		r.err = failure(err)
	case context.Cause(ctx) != nil:
		// The caller has given up, or all handlers together took too long. That is no failure of this extension that its
		// policy could excuse, and nobody may take it for a success.
		r.err = failure(context.Cause(ctx))
	case r.handler.IgnoreFailures:
		r.response = r.descriptor.NewResponse()
		r.response.SetStatus(runtimehooksv1.ResponseStatusSuccess)
		r.record.Answer, r.record.Err = record.Ignored, failure(err)
		return
	default:
		r.err = failure(err)
	}
	r.record.Answer, r.record.Err = record.Failure, r.err
}
