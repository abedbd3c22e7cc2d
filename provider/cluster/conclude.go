package cluster

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/pause"
)

// conclude brings the status up to what the pass found out. Provisioned stays true once it is (IC-23).
func conclude(s *scope) {
	status := &s.capstan.Status
	conditions.Set(s.capstan, pause.Condition(""))
	for _, c := range judge(s) {
		conditions.Set(s.capstan, c)
	}
	if s.done {
		status.FailureDomains = s.domains
		status.Initialization.Provisioned = ptr.To(true)
	}
}

// judge returns EndpointReady, and Ready, which says the same until the deletion starts (IC-28).
func judge(s *scope) []metav1.Condition {
	var endpoint metav1.Condition
	switch {
	case s.problem != nil:
		endpoint = metav1.Condition{
			Type: infrav1.EndpointReadyCondition, Status: metav1.ConditionFalse, Reason: s.problem.reason, Message: s.problem.message,
		}
	case s.done:
		endpoint = metav1.Condition{Type: infrav1.EndpointReadyCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReadyReason}
	}
	ready := endpoint
	if !s.capstan.DeletionTimestamp.IsZero() {
		ready = metav1.Condition{Status: metav1.ConditionFalse, Reason: infrav1.DeletingReason, Message: s.leaving}
		if s.problem != nil {
			ready.Message = s.problem.message
		}
	}
	ready.Type = infrav1.ReadyCondition
	if endpoint.Type == "" {
		return []metav1.Condition{ready}
	}
	return []metav1.Condition{endpoint, ready}
}
