// Package wakeup wakes controllers of Cluster API immediately when something happens that they would otherwise find
// only by polling every 15 to 30 seconds.
//
// Controllers wait for five things that they don't watch:
//
//   - a Pod of the control plane becomes healthy (KubeadmControlPlane polls after 15 s)
//   - the last Pod leaves a Node that is being drained (Machine polls after 20 s)
//   - the control plane becomes stable (MachineSet polls after 15 s)
//   - an extension whose calls failed can be called again (the topology controller polls with pauses that double)
//   - a control plane appears after the Cluster that refers to it (Cluster polls after 30 s)
//
// Upstream does not watch them because that would be expensive with hundreds of clusters. On one machine, it takes one
// watch per cluster.
//
// All controllers get their connections to workload clusters, and with them a source of events, from one ClusterCache.
// [Cache] wraps that ClusterCache and adds a second source of events for the same queues. The package writes nothing to
// the API server, and does not modify any controller.
package wakeup

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Names under which upstream's controllers request their source of events from the ClusterCache. A test checks them.
const (
	controlPlanes = "kubeadmcontrolplane"
	machines      = "machine"
	machineSets   = "machineset"
	topologies    = "topology/cluster"
	clusters      = "cluster"
)

// registerPause is longer than the registry of extensions takes to learn about a changed condition of an
// ExtensionConfig.
const registerPause = time.Second

// appearPause is longer than one cache of a process can lag behind another. The controller of Clusters and this package
// read control planes from different caches.
const appearPause = 200 * time.Millisecond

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Cache is a ClusterCache that can wake the controllers that use it. Create it with [New], pass it to all controllers,
// then call [Cache.SetupWithManager].
type Cache struct {
	clustercache.ClusterCache
	reader client.Reader

	mu     sync.RWMutex
	queues map[string]queue
}

// New returns a Cache around inner. reader reads Clusters, Machines and MachineSets of the management cluster; it
// should read from a cache.
func New(inner clustercache.ClusterCache, reader client.Reader) *Cache {
	return &Cache{ClusterCache: inner, reader: reader, queues: map[string]queue{}}
}

// GetClusterSource returns inner's source, and records the controller's queue when the source starts.
func (c *Cache) GetClusterSource(name string, mapFunc func(context.Context, client.Object) []ctrl.Request,
	opts ...clustercache.GetClusterSourceOption,
) source.Source {
	inner := c.ClusterCache.GetClusterSource(name, mapFunc, opts...)
	return source.Func(func(ctx context.Context, q queue) error {
		c.mu.Lock()
		c.queues[name] = q
		c.mu.Unlock()
		return inner.Start(ctx, q)
	})
}

// SetupWithManager adds the controller that watches for reasons to wake others. Call it after adding the controllers
// that use the Cache.
func (c *Cache) SetupWithManager(mgr ctrl.Manager, pods controller.Options) error {
	watcher := &podWatcher{cache: c}
	pods.Reconciler = watcher
	var err error
	if watcher.controller, err = controller.New("wakeup", mgr, pods); err != nil {
		return fmt.Errorf("adding the wake-up controller: %w", err)
	}
	connections := c.ClusterCache.GetClusterSource("wakeup",
		func(_ context.Context, cluster client.Object) []ctrl.Request {
			return []ctrl.Request{{NamespacedName: client.ObjectKeyFromObject(cluster)}}
		})
	kcps := source.Kind(mgr.GetCache(), &controlplanev1.KubeadmControlPlane{},
		handler.TypedFuncs[*controlplanev1.KubeadmControlPlane, reconcile.Request]{
			CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*controlplanev1.KubeadmControlPlane], _ queue) {
				c.controlPlaneAppeared(ctx, e.Object)
			},
			UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*controlplanev1.KubeadmControlPlane], _ queue) {
				if statusChanged(e.ObjectOld, e.ObjectNew) {
					c.controlPlaneChanged(ctx, e.ObjectNew)
				}
			},
		})
	extensions := source.Kind(mgr.GetCache(), &runtimev1.ExtensionConfig{},
		handler.TypedFuncs[*runtimev1.ExtensionConfig, reconcile.Request]{
			UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*runtimev1.ExtensionConfig], _ queue) {
				if discovered(e.ObjectOld, e.ObjectNew) {
					c.extensionDiscovered(ctx)
				}
			},
			DeleteFunc: func(ctx context.Context, _ event.TypedDeleteEvent[*runtimev1.ExtensionConfig], _ queue) {
				c.extensionDiscovered(ctx) // the topologies need not wait for it any longer
			},
		})
	for _, s := range []source.Source{connections, kcps, extensions} {
		if err := watcher.controller.Watch(s); err != nil {
			return fmt.Errorf("adding the wake-up controller: %w", err)
		}
	}
	return nil
}

// add makes a controller reconcile an object soon.
func (c *Cache) add(controller string, key types.NamespacedName) { c.addAfter(controller, key, 0) }

// addAfter makes a controller reconcile an object after a pause.
func (c *Cache) addAfter(controller string, key types.NamespacedName, pause time.Duration) {
	c.mu.RLock()
	q := c.queues[controller]
	c.mu.RUnlock()
	if q != nil {
		q.AddAfter(reconcile.Request{NamespacedName: key}, pause)
	}
}

// controlPlaneChanged wakes the MachineSets that may have waited for this control plane.
func (c *Cache) controlPlaneChanged(ctx context.Context, kcp *controlplanev1.KubeadmControlPlane) {
	var list clusterv1.MachineSetList
	if err := c.reader.List(ctx, &list, client.InNamespace(kcp.Namespace),
		inCluster(kcp.Labels[clusterv1.ClusterNameLabel])); err != nil {
		return // without a wakeup it only takes longer
	}
	for i := range list.Items {
		if heldBack(&list.Items[i]) {
			c.add(machineSets, client.ObjectKeyFromObject(&list.Items[i]))
		}
	}
}

// controlPlaneAppeared wakes the Cluster that may have looked for its control plane a moment too early, unless the
// Cluster has already found it.
func (c *Cache) controlPlaneAppeared(ctx context.Context, kcp *controlplanev1.KubeadmControlPlane) {
	if kcp.Labels[clusterv1.ClusterNameLabel] != "" && len(kcp.OwnerReferences) > 0 {
		return
	}
	var list clusterv1.ClusterList
	if err := c.reader.List(ctx, &list, client.InNamespace(kcp.Namespace)); err != nil {
		return
	}
	for i := range list.Items {
		if ref := list.Items[i].Spec.ControlPlaneRef; ref.Kind == "KubeadmControlPlane" && ref.Name == kcp.Name {
			c.addAfter(clusters, client.ObjectKeyFromObject(&list.Items[i]), appearPause)
		}
	}
}

// extensionDiscovered wakes the topologies, in all namespaces, that may have waited for an extension.
func (c *Cache) extensionDiscovered(ctx context.Context) {
	var list clusterv1.ClusterList
	if err := c.reader.List(ctx, &list); err != nil {
		return
	}
	for i := range list.Items {
		if waits(&list.Items[i]) {
			c.addAfter(topologies, client.ObjectKeyFromObject(&list.Items[i]), registerPause)
		}
	}
}

// controlPlanePodChanged wakes the control plane of a cluster.
func (c *Cache) controlPlanePodChanged(ctx context.Context, key types.NamespacedName) {
	var cluster clusterv1.Cluster
	if err := c.reader.Get(ctx, key, &cluster); err != nil {
		return
	}
	if ref := cluster.Spec.ControlPlaneRef; ref.Kind == "KubeadmControlPlane" {
		c.add(controlPlanes, types.NamespacedName{Namespace: key.Namespace, Name: ref.Name})
	}
}

// podLeft wakes the Machine on whose Node the Pod was, if that Machine is being deleted.
func (c *Cache) podLeft(ctx context.Context, cluster types.NamespacedName, pod *corev1.Pod) {
	var list clusterv1.MachineList
	if err := c.reader.List(ctx, &list, client.InNamespace(cluster.Namespace), inCluster(cluster.Name)); err != nil {
		return
	}
	for i := range list.Items {
		if m := &list.Items[i]; !m.DeletionTimestamp.IsZero() && m.Status.NodeRef.Name == pod.Spec.NodeName {
			c.add(machines, client.ObjectKeyFromObject(m))
		}
	}
}

func inCluster(name string) client.MatchingLabels {
	return client.MatchingLabels{clusterv1.ClusterNameLabel: name}
}
