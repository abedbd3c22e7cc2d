package v1beta1

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"

	"github.com/capstan-dev/capstan/api/v1beta2"
)

// severities are the severities of reasons that need attention. All other reasons only say what the object waits for.
var severities = map[string]clusterv1beta1.ConditionSeverity{
	v1beta2.BootstrapFailedReason: clusterv1beta1.ConditionSeverityError,
	v1beta2.HostGoneReason:        clusterv1beta1.ConditionSeverityError,
	v1beta2.EndpointFailedReason:  clusterv1beta1.ConditionSeverityError,
	v1beta2.EndpointMovedReason:   clusterv1beta1.ConditionSeverityError,
	v1beta2.HostOfflineReason:     clusterv1beta1.ConditionSeverityWarning,
	v1beta2.NoHostMatchesReason:   clusterv1beta1.ConditionSeverityWarning,
	v1beta2.StepFailedReason:      clusterv1beta1.ConditionSeverityWarning,
	v1beta2.AccessDeniedReason:    clusterv1beta1.ConditionSeverityWarning,
}

// severity returns the severity of a condition. Only conditions with status False have one, as Cluster API demands.
func severity(c metav1.Condition) clusterv1beta1.ConditionSeverity {
	if c.Status != metav1.ConditionFalse {
		return clusterv1beta1.ConditionSeverityNone
	}
	if s, ok := severities[c.Reason]; ok {
		return s
	}
	return clusterv1beta1.ConditionSeverityInfo
}

// oldCondition converts a condition to the form of contract v1beta1.
func oldCondition(c metav1.Condition) clusterv1beta1.Condition {
	return clusterv1beta1.Condition{
		Type:               clusterv1beta1.ConditionType(c.Type),
		Status:             corev1.ConditionStatus(c.Status),
		Severity:           severity(c),
		LastTransitionTime: c.LastTransitionTime,
		Reason:             c.Reason,
		Message:            c.Message,
	}
}

// newCondition converts a condition to the form of contract v1beta2.
func newCondition(c clusterv1beta1.Condition) metav1.Condition {
	reason := c.Reason
	if reason == "" {
		reason = v1beta2.NoReasonReportedReason // v1beta2 requires a reason
	}
	return metav1.Condition{
		Type:               string(c.Type),
		Status:             metav1.ConditionStatus(c.Status),
		LastTransitionTime: c.LastTransitionTime,
		Reason:             reason,
		Message:            c.Message,
	}
}

// conditionsFromHub returns the conditions in the form of v1beta1. written are the conditions that clients wrote
// through v1beta1; each is used while the v1beta2 condition made from it is unchanged.
func conditionsFromHub(conditions []metav1.Condition, written []v1beta2.V1Beta1Condition) []clusterv1beta1.Condition {
	var out []clusterv1beta1.Condition
	for _, c := range conditions {
		old := oldCondition(c)
		for _, w := range written {
			c.ObservedGeneration = 0
			if said := writtenCondition(w); equality.Semantic.DeepEqual(newCondition(said), c) {
				old = said
			}
		}
		out = append(out, old)
	}
	return out
}

// conditionsToHub returns the conditions in the form of v1beta2, and the v1beta1 conditions that can't be derived from
// that form. old may be nil. If nobody has changed the conditions since they were made from old, conditionsToHub
// returns old.
func conditionsToHub(conditions []clusterv1beta1.Condition, old *hubConditions) hubConditions {
	if old != nil && equality.Semantic.DeepEqual(conditionsFromHub(old.conditions, old.written), conditions) {
		return *old
	}
	var out hubConditions
	for _, c := range conditions {
		now := newCondition(c)
		if !equality.Semantic.DeepEqual(oldCondition(now), c) {
			out.written = append(out.written, keptCondition(c))
		}
		out.conditions = append(out.conditions, observed(now, old))
	}
	return out
}

// hubConditions are the conditions of a v1beta2 object: status.conditions and status.deprecated.v1beta1.conditions.
type hubConditions struct {
	conditions []metav1.Condition
	written    []v1beta2.V1Beta1Condition
}

// observed sets the observed generation of an unchanged condition, because v1beta1 has none.
func observed(now metav1.Condition, old *hubConditions) metav1.Condition {
	if old == nil {
		return now
	}
	i := slices.IndexFunc(old.conditions, func(c metav1.Condition) bool {
		c.ObservedGeneration = 0
		return equality.Semantic.DeepEqual(c, now)
	})
	if i >= 0 {
		now.ObservedGeneration = old.conditions[i].ObservedGeneration
	}
	return now
}

// writtenCondition returns the v1beta1 condition that a client wrote and v1beta2 keeps.
func writtenCondition(c v1beta2.V1Beta1Condition) clusterv1beta1.Condition {
	return clusterv1beta1.Condition{
		Type: clusterv1beta1.ConditionType(c.Type), Status: corev1.ConditionStatus(c.Status),
		Severity:           clusterv1beta1.ConditionSeverity(c.Severity),
		LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
	}
}

func keptCondition(c clusterv1beta1.Condition) v1beta2.V1Beta1Condition {
	return v1beta2.V1Beta1Condition{
		Type: string(c.Type), Status: metav1.ConditionStatus(c.Status), Severity: string(c.Severity),
		LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
	}
}
