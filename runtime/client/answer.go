package client

import (
	"fmt"
	"strings"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/internal/wire"
)

// checkAnswer checks what the handler says in a decoded response. It also shortens the message, which ends up in
// conditions.
func checkAnswer(response runtimehooksv1.ResponseObject) error {
	response.SetMessage(wire.Clip(response.GetMessage(), wire.MaxMessage))
	switch status := response.GetStatus(); status {
	case runtimehooksv1.ResponseStatusSuccess:
	case runtimehooksv1.ResponseStatusFailure:
		if response.GetMessage() == "" {
			return said("it answered Failure without a message; see the extension's log")
		}
		return said("it answered Failure: " + response.GetMessage())
	case "":
		return said("its answer has no status; it must be Success or Failure")
	default:
		return said(fmt.Sprintf("it answered with the unknown status %q; it must be Success or Failure",
			wire.Clip(string(status), 64)))
	}
	if retry, ok := response.(runtimehooksv1.RetryResponseObject); ok && retry.GetRetryAfterSeconds() < 0 {
		return fmt.Errorf("its answer has a retryAfterSeconds of %d; it must not be negative", retry.GetRetryAfterSeconds())
	}
	return nil
}

// said returns a failure that the handler itself reported.
func said(text string) error { return &failure{kind: refused, text: text} }

// join combines the responses to a question into one if all calls have succeeded (CL-11, CL-19). Otherwise it returns
// the error of the first failing handler in the order.
func join(q *question, outcomes []outcome) (runtimehooksv1.ResponseObject, error) {
	for i := range outcomes {
		if err := outcomes[i].err; err != nil {
			return nil, err
		}
	}
	joined := successOf(q.hook, "")
	var messages []string
	var shortest int32
	for i := range outcomes {
		response := outcomes[i].response
		if message := response.GetMessage(); message != "" {
			messages = append(messages, message)
		}
		if retry, ok := response.(runtimehooksv1.RetryResponseObject); ok {
			if seconds := retry.GetRetryAfterSeconds(); seconds != 0 && (shortest == 0 || seconds < shortest) {
				shortest = seconds
			}
		}
	}
	joined.SetMessage(wire.Clip(strings.Join(messages, ", "), 4*wire.MaxMessage))
	if retry, ok := joined.(runtimehooksv1.RetryResponseObject); ok {
		retry.SetRetryAfterSeconds(shortest)
	}
	return joined, nil
}
