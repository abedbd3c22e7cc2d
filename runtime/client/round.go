package client

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/internal/post"
	"github.com/capstan-dev/capstan/runtime/record"
)

var errDeadline = errors.New("the deadline for all handlers of the hook together has passed")

// round makes the calls of one question. If one fails, the question has failed: the calls after it in the order are
// cancelled or not made at all, and those before it go on. So the outcome is always that of the first failing handler
// in the order, however fast the others are.
type round struct {
	client    *Client
	ctx       context.Context
	question  *question
	outcomes  []outcome   // for each ask of the question
	exchanges []post.Call // one for each ask too
	next      atomic.Int64

	mu    sync.Mutex
	first int // index of the first call that failed
}

// run makes the calls, a bounded number at a time, and returns when all have ended.
func (c *Client) run(ctx context.Context, q *question) []outcome {
	ctx, cancel := context.WithTimeoutCause(ctx, c.options.Deadline, errDeadline)
	defer cancel()
	count := len(q.asks)
	r := &round{
		client: c, ctx: ctx, question: q, outcomes: make([]outcome, count), exchanges: make([]post.Call, count), first: count,
	}
	defer context.AfterFunc(ctx, func() { r.end(0) })()
	var workers sync.WaitGroup
	for range min(c.options.Parallel, count) - 1 {
		workers.Go(r.work)
	}
	r.work()
	workers.Wait()
	return r.outcomes
}

// work makes calls until there are none left.
func (r *round) work() {
	for {
		i := int(r.next.Add(1)) - 1
		if i >= len(r.outcomes) || r.failedBefore(i) {
			return
		}
		r.call(i)
		if r.outcomes[i].err != nil {
			r.fail(i)
		}
	}
}

// fail records a failed call and cancels those after it.
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

// failedBefore reports whether the outcome is known without this call.
func (r *round) failedBefore(i int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.first < i
}

// end cancels the calls from this one on.
func (r *round) end(from int) {
	for i := from; i < len(r.exchanges); i++ {
		r.exchanges[i].End()
	}
}

// call makes one call, unless the circuit prevents it, and turns the result into an outcome.
func (r *round) call(i int) {
	c, one, o, start := r.client, &r.question.asks[i], &r.outcomes[i], time.Now()
	o.asked = true
	o.record = record.Call{
		Time: start, Hook: one.handler.HookName, Extension: one.handler.Extension.Name, Handler: one.handler.Local,
	}
	var header map[string]string
	var end func(record.Call)
	if c.options.Trace != nil {
		header, end = c.options.Trace(r.ctx, o.record)
	}
	var response runtimehooksv1.ResponseObject
	err := one.endpoint.circuit.enter(start)
	if err != nil {
		o.record.NotAsked = true
	} else {
		response, err = r.ask(i, start, header)
		r.learn(i, err)
		o.record.Duration = time.Since(start)
	}
	if f := failureOf(err); f != nil {
		o.failed(r.question, one, f, response)
	} else {
		o.answered(response, c.options.MaxRetryAfter)
	}
	if end != nil {
		end(o.record)
	}
}

// ask calls one handler, checks its answer, and checks that the caller is still waiting. If the handler has refused,
// its response comes with the error.
func (r *round) ask(i int, start time.Time, header map[string]string) (runtimehooksv1.ResponseObject, error) {
	response, err := r.exchange(i, start, header)
	if err == nil {
		if err = checkAnswer(response); err == nil {
			err = checkPatches(r.question.requests.request, response)
		}
		return response, err
	}
	if cause := context.Cause(r.ctx); cause != nil {
		// The caller has given up, or all handlers together took too long. The extension's failure policy can't excuse that,
		// and it must not pass for a success.
		return nil, &failure{kind: abandoned, cause: cause}
	}
	if r.failedBefore(i) {
		return nil, &failure{kind: superfluous, text: "its answer is no longer needed: another handler has failed"}
	}
	return nil, err
}

// exchange sends the request and decodes the answer, in the version that the caller uses.
func (r *round) exchange(i int, start time.Time, header map[string]string) (runtimehooksv1.ResponseObject, error) {
	if err := context.Cause(r.ctx); err != nil {
		return nil, err
	}
	one := &r.question.asks[i]
	served := one.served(r.question)
	response := served.NewResponse()
	err := one.endpoint.exchange(r.ctx, &r.exchanges[i], exchange{
		served: served, target: one.handler.Target, timeout: one.handler.Timeout, start: start, header: header,
		body: one.body,
	}, response)
	if err != nil {
		return nil, err
	}
	if one.conversion == nil {
		return response, nil
	}
	newest, err := one.conversion.Up(response)
	if err != nil {
		return nil, &failure{kind: misconfigured, cause: err}
	}
	return newest, nil
}

// learn tells the circuit the result of the call, and reports an extension whose handlers may have changed.
func (r *round) learn(i int, err error) {
	one := &r.question.asks[i]
	says, gone := works, false
	if f := failureOf(err); f != nil {
		says, gone = consequences[f.kind].health, f.kind == unknownHandler
	}
	recovered := one.endpoint.circuit.leave(time.Now(), says, err)
	if recovered || gone || says == works && r.exchanges[i].Resent() {
		r.client.tellStale(one.handler.Extension.Name)
	}
}
