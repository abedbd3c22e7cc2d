package cluster

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/failure"
	"github.com/capstan-dev/capstan/provider/patch"
	"github.com/capstan-dev/capstan/provider/pause"
	"github.com/capstan-dev/capstan/provider/readyevent"
)

// writeStatus writes the whole status in one patch if it differs (IC-52). err is the error of the steps; the status
// shows it only after it has persisted for a while.
func (r *Reconciler) writeStatus(ctx context.Context, s *scope, err error) error {
	if s.silent {
		r.failures.Forget(client.ObjectKeyFromObject(s.capstan))
		return nil
	}
	before := s.capstan.DeepCopy()
	if s.obstacle != nil {
		err = nil // the failed step has already described the error
	}
	failed, write := r.failures.Judge(r.Clock, s.capstan, err)
	s.failed = failed
	switch {
	case s.paused != "":
		conditions.Set(s.capstan, pause.Condition(s.paused))
	case !write:
		return nil
	default:
		setStatus(s)
	}
	patch.MakeRoom(s.capstan, infrav1.ReadyCondition, infrav1.EndpointReadyCondition, infrav1.ReconciledCondition,
		infrav1.PausedCondition)
	if err := patch.Status(ctx, r.Client, before, s.capstan, patch.Locked); err != nil {
		return client.IgnoreNotFound(err)
	}
	readyevent.Record(r.Recorder, before, s.capstan)
	return nil
}

// setStatus updates the status with what the pass found out. Once Provisioned is true, it stays true (IC-23).
func setStatus(s *scope) {
	status := &s.capstan.Status
	if s.running {
		conditions.Set(s.capstan, pause.Condition(""))
	}
	for _, c := range decide(s) {
		conditions.Set(s.capstan, c)
	}
	failure.Set(s.capstan, s.failed)
	if s.done {
		status.FailureDomains = s.domains
		status.Initialization.Provisioned = ptr.To(true)
	}
}

// decide returns conditions EndpointReady and Ready, which agree until the deletion starts (IC-28). Conditions that it
// does not return stay unchanged.
func decide(s *scope) []metav1.Condition {
	var endpoint []metav1.Condition
	switch {
	case s.obstacle != nil:
		endpoint = append(endpoint, no(infrav1.EndpointReadyCondition, s.obstacle.Reason, s.obstacle.Message))
	case s.done:
		endpoint = append(endpoint, metav1.Condition{
			Type: infrav1.EndpointReadyCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReadyReason,
		})
	}
	return append(endpoint, ready(s, endpoint)...)
}

// ready returns condition Ready. A failed pass does not change it once it is True, because the endpoint works without
// its controller.
func ready(s *scope, endpoint []metav1.Condition) []metav1.Condition {
	switch {
	case !s.capstan.DeletionTimestamp.IsZero():
		return []metav1.Condition{no(infrav1.ReadyCondition, infrav1.DeletingReason, deletingMessage(s))}
	case len(endpoint) > 0:
		c := endpoint[0]
		c.Type = infrav1.ReadyCondition
		return []metav1.Condition{c}
	case s.failed != nil && !conditions.IsTrue(s.capstan, infrav1.ReadyCondition):
		return []metav1.Condition{no(infrav1.ReadyCondition, s.failed.Reason, s.failed.Message)}
	default:
		return nil
	}
}

// deletingMessage returns what a deletion waits for.
func deletingMessage(s *scope) string {
	switch {
	case s.obstacle != nil:
		return s.obstacle.Message
	case s.failed != nil:
		return s.failed.Message
	default:
		return s.waiting
	}
}

func no(kind, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}
