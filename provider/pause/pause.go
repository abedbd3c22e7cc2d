// Package pause decides whether an object is paused and returns its condition Paused (contract rules IM-64, IM-65,
// IC-42 and IC-43).
package pause

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
)

// Why returns a sentence that says why an object is paused, or "" if it is not. A nil cluster pauses nothing. The
// annotation pauses the object whatever its value is.
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

// Condition returns the condition Paused. Its argument is the result of Why.
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
