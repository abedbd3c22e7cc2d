package providers

import (
	"context"
	"fmt"
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// state is the state of a process.
type state struct {
	// off is true if the Deployment wants no process.
	off bool
	// ready is true if the process works.
	ready bool
	// problem says why the process does not work.
	problem string
	// missing says what a restart of the process needs; meanwhile the process keeps running as it is.
	missing string
}

// report writes the status of a Deployment if it has changed.
func (r *reconciler) report(ctx context.Context, d *appsv1.Deployment, s state) error {
	want := status(d.Status, d.Generation, s, metav1.Now())
	if reflect.DeepEqual(want, d.Status) {
		return nil
	}
	now := d.DeepCopy()
	now.Status = want
	if err := r.Status().Patch(ctx, now, client.MergeFrom(d)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of Deployment %s: %w", d.Name, err)
	}
	return nil
}

// status returns the status of a Deployment whose only Pod is a process.
func status(old appsv1.DeploymentStatus, generation int64, s state, now metav1.Time) appsv1.DeploymentStatus {
	want := appsv1.DeploymentStatus{ObservedGeneration: generation, Conditions: old.Conditions}
	available := appsv1.DeploymentCondition{
		Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse, Reason: "ProcessNotReady", Message: s.problem,
	}
	if !s.off {
		want.Replicas, want.UpdatedReplicas, want.UnavailableReplicas = 1, 1, 1
	}
	switch {
	case s.off:
		available.Reason, available.Message = "ScaledDown", "There is no process, because there are no replicas."
	case s.ready:
		want.ReadyReplicas, want.AvailableReplicas, want.UnavailableReplicas = 1, 1, 0
		available.Status, available.Reason, available.Message =
			corev1.ConditionTrue, "ProcessReady", "The process of the plane works."
	}
	if !s.off && s.missing != "" {
		available.Message += " (It keeps running as it was started, and can't be restarted: " + s.missing + ")"
	}
	for _, c := range old.Conditions {
		if c.Type == available.Type && c.Status == available.Status && c.Reason == available.Reason &&
			c.Message == available.Message {
			return want
		}
	}
	available.LastUpdateTime, available.LastTransitionTime = now, now
	want.Conditions = nil
	for _, c := range old.Conditions {
		if c.Type != available.Type {
			want.Conditions = append(want.Conditions, c)
		} else if c.Status == available.Status {
			available.LastTransitionTime = c.LastTransitionTime
		}
	}
	want.Conditions = append(want.Conditions, available)
	return want
}
