package server

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"strings"
	"sync"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
)

// Sequence combines several functions into one, which calls them in turn with the same request and the same response,
// so that each may add to what those before it filled in. The first that fails or waits ends the sequence. Messages are
// joined by a comma and a space. Use it for parts that depend on the part before them; for independent parts [Parallel]
// is faster and easier to reason about.
func Sequence[Req, Resp any, PResp hook.Response[Resp]](parts ...Func[Req, Resp]) Func[Req, Resp] {
	if !complete(parts) {
		return nil // which New reports
	}
	return func(ctx context.Context, request *Req, response *Resp) error {
		var messages []string
		for _, part := range parts {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := part(ctx, request, response); err != nil {
				return err
			}
			answer := PResp(response)
			if message := answer.GetMessage(); message != "" {
				messages = append(messages, message)
			}
			answer.SetMessage("")
		}
		PResp(response).SetMessage(strings.Join(messages, ", "))
		return nil
	}
}

// Parallel combines several functions into one, which calls them concurrently, each with a copy of the request and a
// response of its own. It returns when all have returned. Its result does not depend on which returned first:
//
//   - if some fail, it fails with their errors in the order of the parts,
//   - otherwise, if some wait, it waits for the shortest of their times (as callers do, CL-11) with all of their
//     reasons,
//   - otherwise it succeeds with all of their messages.
//
// Use it for hooks whose response has only status, message and retryAfterSeconds: other responses can't be joined, and
// a part that sets other fields fails.
func Parallel[Req, Resp any, PReq hook.Request[Req],
	PResp hook.Response[Resp]](parts ...Func[Req, Resp]) Func[Req, Resp] {
	if !complete(parts) {
		return nil // which New reports
	}
	return func(ctx context.Context, request *Req, response *Resp) error {
		outcomes := make([]part, len(parts))
		var calls sync.WaitGroup
		for i := range parts {
			own, ok := PReq(request).DeepCopyObject().(PReq)
			if !ok {
				return fmt.Errorf("copying the request did not return a %T", request)
			}
			calls.Go(func() { outcomes[i] = callPart[Req, Resp, PResp](ctx, parts[i], (*Req)(own)) })
		}
		calls.Wait()
		message, err := joinParts(outcomes)
		if err != nil {
			return err
		}
		PResp(response).SetMessage(message)
		return nil
	}
}

func complete[Req, Resp any](parts []Func[Req, Resp]) bool {
	for _, part := range parts {
		if part == nil {
			return false
		}
	}
	return len(parts) > 0
}

// part is the outcome of one part of Parallel.
type part struct {
	message  string
	err      error
	panicked any
	stack    string
}

func callPart[Req, Resp any, PResp hook.Response[Resp]](ctx context.Context, call Func[Req, Resp],
	request *Req) (p part) {
	defer func() {
		if cause := recover(); cause != nil {
			p = part{panicked: cause, stack: string(debug.Stack())}
		}
	}()
	response := new(Resp)
	if err := call(ctx, request, response); err != nil {
		return part{err: err}
	}
	answer := PResp(response)
	p.message = answer.GetMessage()
	answer.SetMessage("")
	answer.SetStatus("")
	if retry, ok := any(answer).(runtimehooksv1.RetryResponseObject); ok && retry.GetRetryAfterSeconds() != 0 {
		return part{err: errSetRetry}
	}
	if !reflect.ValueOf(response).Elem().IsZero() {
		return part{
			err: errors.New("a part of server.Parallel answered with more than a message: use server.Sequence for such hooks"),
		}
	}
	return p
}

// joinParts decides from the outcomes of all parts, in their order.
func joinParts(parts []part) (message string, err error) {
	var failures, reasons, messages []string
	var shortest *waitError
	for _, p := range parts {
		wait := new(waitError)
		switch {
		case p.panicked != nil:
			// ends the call as any other panic does
			panic(fmt.Sprintf("%v, in a part of server.Parallel: %s", p.panicked, p.stack))
		case errors.As(p.err, &wait):
			reasons = append(reasons, wait.reason)
			if shortest == nil || wait.seconds < shortest.seconds {
				shortest = wait
			}
		case p.err != nil:
			failures = append(failures, p.err.Error())
		case p.message != "":
			messages = append(messages, p.message)
		}
	}
	switch {
	case len(failures) > 0:
		return "", errors.New(strings.Join(failures, ", "))
	case shortest != nil:
		return "", &waitError{seconds: shortest.seconds, reason: strings.Join(reasons, ", ")}
	}
	return strings.Join(messages, ", "), nil
}
