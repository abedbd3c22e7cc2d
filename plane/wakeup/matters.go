package wakeup

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
)

// tierLabel is a label of the static Pods that kubeadm creates for a control plane; its value is "control-plane".
const tierLabel = "tier"

// controlPlanePod reports whether KubeadmControlPlane derives a control plane's health from the Pod.
func controlPlanePod(pod *corev1.Pod) bool {
	return pod.Namespace == metav1.NamespaceSystem && pod.Labels[tierLabel] == "control-plane"
}

// healthChanged reports whether the phase or the status of a condition differs.
func healthChanged(old, pod *corev1.Pod) bool {
	same := func(a, b corev1.PodCondition) bool { return a.Type == b.Type && a.Status == b.Status }
	return old.Status.Phase != pod.Status.Phase || !slices.EqualFunc(old.Status.Conditions, pod.Status.Conditions, same)
}

// finished reports whether a Pod no longer delays a drain.
func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// statusChanged reports whether the status of a control plane changed. Others may have waited for that.
func statusChanged(old, kcp *controlplanev1.KubeadmControlPlane) bool {
	return !equality.Semantic.DeepEqual(old.Status, kcp.Status)
}

// heldBack reports whether a MachineSet has fewer Machines than wanted, as it does while it waits for the control
// plane.
func heldBack(ms *clusterv1.MachineSet) bool {
	return ms.DeletionTimestamp.IsZero() && ptr.Deref(ms.Status.Replicas, 0) < ptr.Deref(ms.Spec.Replicas, 1)
}

// discovered reports whether an extension was discovered again. Then the extension can be called again, or has other
// handlers.
func discovered(old, e *runtimev1.ExtensionConfig) bool {
	now, before := conditions.Get(e, runtimev1.ExtensionConfigDiscoveredCondition),
		conditions.Get(old, runtimev1.ExtensionConfigDiscoveredCondition)
	if now == nil || now.Status != metav1.ConditionTrue {
		return false
	}
	return before == nil || before.Status != now.Status || before.ObservedGeneration != now.ObservedGeneration ||
		!equality.Semantic.DeepEqual(old.Status.Handlers, e.Status.Handlers)
}

// waits reports whether a Cluster with a topology may be waiting for an extension: it is not fully reconciled, a hook
// is pending, or it is being deleted.
func waits(cluster *clusterv1.Cluster) bool {
	return cluster.Spec.Topology.IsDefined() && (!cluster.DeletionTimestamp.IsZero() ||
		cluster.Annotations[runtimev1.PendingHooksAnnotation] != "" ||
		!conditions.IsTrue(cluster, clusterv1.ClusterTopologyReconciledCondition))
}
