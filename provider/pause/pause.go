// Package pause decides whether an object is paused, and says so in its condition Paused (IM-64, IM-65, IC-42, IC-43).
package pause

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
)

// Why returns the reason for which an object is paused, as a sentence, or nothing when it is not. A nil cluster pauses
// nothing. The presence of the annotation counts, not its value.
func Why(cluster *clusterv1.Cluster, object metav1.Object) string {
	var why []string
	if cluster != nil && ptr.Deref(cluster.Spec.Paused, false) {
		why = append(why, "Cluster "+cluster.Name+" has spec.paused: true")
	}
	if annotations.HasPaused(object) {
		why = append(why, "the object has the annotation "+clusterv1.PausedAnnotation)
	}
	return strings.Join(why, "; ")
}

// Condition returns the condition Paused for the answer of Why.
func Condition(why string) metav1.Condition {
	if why == "" {
		return metav1.Condition{
			Type: clusterv1.PausedCondition, Status: metav1.ConditionFalse, Reason: clusterv1.NotPausedReason,
		}
	}
	return metav1.Condition{
		Type: clusterv1.PausedCondition, Status: metav1.ConditionTrue, Reason: clusterv1.PausedReason, Message: why,
	}
}
