package machine

import (
	"context"

	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/provider/step"
)

// reportedFailure ends the pass if somebody has set the failure fields of contract v1beta1 (IM-42). Failures that this
// controller detects are in the conditions, and the steps that detect them end the pass themselves.
func (r *Reconciler) reportedFailure(_ context.Context, s *scope) (step.Answer, error) {
	written := s.capstan.Status.Deprecated.V1Beta1
	if ptr.Deref(written.FailureReason, "") != "" || ptr.Deref(written.FailureMessage, "") != "" {
		return step.Stop(), nil
	}
	return step.Next(), nil
}
