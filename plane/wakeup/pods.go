package wakeup

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// podWatcher watches the Pods of every connected cluster.
type podWatcher struct {
	cache      *Cache
	controller controller.Controller
}

// Reconcile watches the Pods of a cluster. It is called at every connect and disconnect; watching the same connection
// twice has no effect.
func (w *podWatcher) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	cluster := req.NamespacedName
	err := w.cache.Watch(ctx, cluster,
		clustercache.NewWatcher(clustercache.TypedWatcherOptions[*corev1.Pod, reconcile.Request]{
			Name: "wakeup-pods", Watcher: w.controller, Kind: &corev1.Pod{}, EventHandler: w.handler(cluster),
		}))
	if err != nil && !errors.Is(err, clustercache.ErrClusterNotConnected) {
		return ctrl.Result{}, fmt.Errorf("watching the Pods of the cluster: %w", err)
	}
	return ctrl.Result{}, nil // the next connect calls Reconcile again
}

func (w *podWatcher) handler(cluster types.NamespacedName) handler.TypedEventHandler[*corev1.Pod, reconcile.Request] {
	seen := func(ctx context.Context, old, pod *corev1.Pod) {
		if controlPlanePod(pod) && (old == nil || healthChanged(old, pod)) {
			w.cache.controlPlanePodChanged(ctx, cluster)
		}
		if old != nil && !finished(old) && finished(pod) {
			w.cache.podLeft(ctx, cluster, pod)
		}
	}
	return handler.TypedFuncs[*corev1.Pod, reconcile.Request]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*corev1.Pod], _ queue) { seen(ctx, nil, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*corev1.Pod], _ queue) {
			seen(ctx, e.ObjectOld, e.ObjectNew)
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*corev1.Pod], _ queue) {
			if controlPlanePod(e.Object) {
				w.cache.controlPlanePodChanged(ctx, cluster)
			}
			w.cache.podLeft(ctx, cluster, e.Object)
		},
	}
}

// TrimPod drops everything from a Pod that this package does not read. It is a transform for the caches of workload
// clusters, from which nothing else reads Pods.
func TrimPod(in any) (any, error) {
	pod, ok := in.(*corev1.Pod)
	if !ok {
		return in, nil
	}
	trimmed := &corev1.Pod{
		TypeMeta: pod.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			DeletionTimestamp: pod.DeletionTimestamp,
		},
		Spec:   corev1.PodSpec{NodeName: pod.Spec.NodeName},
		Status: corev1.PodStatus{Phase: pod.Status.Phase},
	}
	if controlPlanePod(pod) {
		trimmed.Labels = map[string]string{tierLabel: pod.Labels[tierLabel]}
		for _, c := range pod.Status.Conditions {
			trimmed.Status.Conditions = append(trimmed.Status.Conditions, corev1.PodCondition{Type: c.Type, Status: c.Status})
		}
	}
	return trimmed, nil
}
