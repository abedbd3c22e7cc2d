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

// Sequence makes one function of several, which are called one after the other with the same request and the same
// response, so that each may add to what those before it filled in. The first that fails or waits ends it. Messages are
// joined by comma and blank. It is for parts that need the one before; parts that do not are faster and easier to
// reason about with [Parallel].
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

// Parallel makes one function of several that are called at the same time, each with a copy of the request and a
// response of its own. It returns when all have, in an outcome that does not depend on who was first:
//
//   - if some fail, it fails with their errors in the order of the parts,
//   - else if some wait, it waits for the shortest of their times (as callers do, CL-11) with all of their reasons,
//   - else it succeeds with all of their messages.
//
// It is for hooks whose answer is status, message and retryAfterSeconds alone: other answers can't be joined, and a
// part that gives one fails.
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
				return fmt.Errorf("copying the request gave no %T", request)
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

// part is how one part of Parallel ended.
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

// joinParts decides from all parts at once, in their order.
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
