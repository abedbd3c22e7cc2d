package client

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/internal/wire"
	"github.com/capstan-dev/capstan/runtime/record"
)

// outcome is the result of calling one handler.
type outcome struct {
	// asked is false if the call was not made because the round had already failed.
	asked bool
	// response is what the caller gets: complete, or nil. It comes with an error for an answer with status Failure.
	response runtimehooksv1.ResponseObject
	// err is nil if the call counts as a success.
	err error
	// record is what observers get.
	record record.Call
}

// answered records an answer with status Success and bounds its wait.
func (o *outcome) answered(response runtimehooksv1.ResponseObject, maxRetryAfter time.Duration) {
	o.response = response
	o.record.Answer, o.record.Message = record.Success, response.GetMessage()
	if retry, ok := response.(runtimehooksv1.RetryResponseObject); ok && retry.GetRetryAfterSeconds() != 0 {
		o.record.Answer = record.Blocked
		o.record.RetryAfter = time.Duration(retry.GetRetryAfterSeconds()) * time.Second
		retry.SetRetryAfterSeconds(min(retry.GetRetryAfterSeconds(), wholeSeconds(maxRetryAfter)))
	}
}

// failed records a failure and applies the handler's failure policy (CL-04, CL-05, CL-20). response is the handler's
// answer if it refused, otherwise nil.
func (o *outcome) failed(q *question, a *ask, f *failure, response runtimehooksv1.ResponseObject) {
	err := &CallError{Hook: a.handler.Hook, Handler: a.handler.Name, Err: f}
	o.record.Err = err
	if consequences[f.kind].excusable && a.handler.IgnoreFailures {
		o.response, o.record.Answer = successOf(q.hook, ""), record.Ignored
		return
	}
	o.err, o.record.Answer = err, record.Failure
	switch f.kind {
	case superfluous:
		o.record.Answer = record.Canceled
	case refused:
		o.response, o.record.Message = response, response.GetMessage()
	}
}

// holds reports whether the handler holds the object back.
func (o *outcome) holds() bool {
	return o.asked && (o.record.Answer == record.Blocked || o.record.Answer == record.Failure)
}

// passed turns an outcome that holds the object back into one that does not.
func (o *outcome) passed(q *question, a *ask, pass *Pass) {
	o.record.Answer, o.record.PassedBy = record.Passed, pass.By
	o.err = nil
	o.response = successOf(q.hook, wire.Clip("handler "+a.handler.Name+" was passed over by "+pass.By, wire.MaxMessage))
}

// successOf returns a response with status Success and this message, and nothing else.
func successOf(descriptor *hook.Descriptor, message string) runtimehooksv1.ResponseObject {
	response := descriptor.NewResponse()
	response.SetStatus(runtimehooksv1.ResponseStatusSuccess)
	response.SetMessage(message)
	return response
}

// report passes the outcomes to the log, the metrics and the observer, in the order of the question.
func (c *Client) report(ctx context.Context, q *question, outcomes []outcome) {
	logger := log.FromContext(ctx)
	detailed := logger.V(4).Enabled()
	about := objectOf(q.object)
	for i := range outcomes {
		o, handler := &outcomes[i], q.asks[i].handler
		if !o.asked {
			continue
		}
		o.record.Object = about
		if failure := o.record.Answer == record.Failure || o.record.Answer == record.Ignored; failure || detailed {
			logCall(logger, handler.Name, o.record)
		}
		if c.metrics != nil {
			c.metrics.observe(handler, o.record)
		}
		if c.options.Observer != nil {
			c.options.Observer(o.record)
		}
	}
}

func logCall(logger logr.Logger, handler string, call record.Call) {
	logger = logger.WithValues(
		"hook", call.Hook, "handler", handler, "answer", call.Answer, "notAsked", call.NotAsked,
		"retryAfter", call.RetryAfter.String(), "message", call.Message, "duration", call.Duration.String(),
	)
	switch call.Answer {
	case record.Failure:
		logger.Error(call.Err, "A runtime extension failed")
	case record.Ignored:
		logger.Error(call.Err, "A runtime extension failed; its failure policy ignores this")
	default:
		logger.V(4).Info("A runtime extension answered")
	}
}
