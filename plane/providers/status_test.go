package providers

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestStatus(t *testing.T) {
	early, late := metav1.NewTime(time.Unix(1, 0)), metav1.NewTime(time.Unix(2, 0))
	ready := status(appsv1.DeploymentStatus{}, 1, state{ready: true}, early)
	broken := status(appsv1.DeploymentStatus{}, 1, state{problem: "no file"}, early)
	for name, c := range map[string]struct {
		old                        appsv1.DeploymentStatus
		now                        state
		replicas, available        int32
		condition                  corev1.ConditionStatus
		message                    string
		lastUpdate, lastTransition metav1.Time
	}{
		"the first status": {appsv1.DeploymentStatus{}, state{ready: true}, 1, 1, corev1.ConditionTrue,
			"The process of the plane works.", late, late},
		"no change": {ready, state{ready: true}, 1, 1, corev1.ConditionTrue, "The process of the plane works.",
			early, early},
		"the process no longer works": {ready, state{problem: "it crashed"}, 1, 0, corev1.ConditionFalse, "it crashed",
			late, late},
		"the process does not work for another reason": {
			broken, state{problem: "no Secret"}, 1, 0, corev1.ConditionFalse, "no Secret", late, early,
		},
		"the process works, but could not be restarted": {
			ready, state{ready: true, missing: "no file"}, 1, 1, corev1.ConditionTrue,
			"The process of the plane works. (It keeps running as it was started, and can't be restarted: no file)", late, early,
		},
		"there are no replicas": {ready, state{off: true}, 0, 0, corev1.ConditionFalse,
			"There is no process, because there are no replicas.", late, late},
	} {
		t.Run(name, func(t *testing.T) {
			got := status(c.old, 7, c.now, late)
			if got.Replicas != c.replicas || got.AvailableReplicas != c.available || got.ReadyReplicas != c.available ||
				got.UnavailableReplicas != c.replicas-c.available || got.ObservedGeneration != 7 {
				t.Errorf("the numbers of replicas in the status are wrong: %+v", got)
			}
			if len(got.Conditions) != 1 {
				t.Fatalf("want one condition, got %+v", got.Conditions)
			}
			if a := got.Conditions[0]; a.Type != appsv1.DeploymentAvailable || a.Status != c.condition ||
				a.Message != c.message || a.LastUpdateTime != c.lastUpdate || a.LastTransitionTime != c.lastTransition {
				t.Errorf("the condition is %+v", a)
			}
		})
	}
}
