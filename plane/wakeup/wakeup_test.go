package wakeup

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// pod returns a Pod with conditions such as "Ready=True".
func pod(name, tier string, phase corev1.PodPhase, conditions ...string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name},
		Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "c"}}},
		Status:     corev1.PodStatus{Phase: phase, PodIP: "10.0.0.1"},
	}
	if tier != "" {
		p.Labels = map[string]string{tierLabel: tier, "component": name}
	}
	for _, c := range conditions {
		kind, status, _ := strings.Cut(c, "=")
		p.Status.Conditions = append(p.Status.Conditions,
			corev1.PodCondition{
				Type: corev1.PodConditionType(kind), Status: corev1.ConditionStatus(status), Message: "for people",
			})
	}
	return p
}

// inner is a ClusterCache that only has sources.
type inner struct{ clustercache.ClusterCache }

func (inner) GetClusterSource(string, func(context.Context, client.Object) []ctrl.Request,
	...clustercache.GetClusterSourceOption) source.Source {
	return source.Func(func(context.Context, queue) error { return nil })
}

// started returns a Cache over objects, whose controllers are started, and a function that returns what was woken since
// its last call.
func started(t *testing.T, objects ...client.Object) (*Cache, func() []string) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, controlplanev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := New(inner{}, fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build())
	queues := map[string]queue{}
	for _, name := range []string{controlPlanes, machines, machineSets, topologies, clusters} {
		q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		t.Cleanup(q.ShutDown)
		if err := c.GetClusterSource(name, nil).Start(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		queues[name] = q
	}
	return c, func() []string {
		var got []string
		for name, q := range queues {
			for q.Len() > 0 {
				req, _ := q.Get()
				q.Done(req)
				got = append(got, name+" "+req.String())
			}
		}
		slices.Sort(got)
		return got
	}
}

func object(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}}
}

func machine(name, node string, deleting bool) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: object(name)}
	m.Status.NodeRef.Name = node
	if deleting {
		m.DeletionTimestamp, m.Finalizers = ptr.To(metav1.Now()), []string{"keep"}
	}
	return m
}

func TestPods(t *testing.T) {
	cluster := &clusterv1.Cluster{ObjectMeta: object("demo")}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{Kind: "KubeadmControlPlane", Name: "demo-cp"}
	other := machine("of-another-cluster", "node-1", true)
	other.Labels[clusterv1.ClusterNameLabel] = "other"
	objects := []client.Object{
		cluster, other,
		machine("drained", "node-1", true), machine("in-use", "node-1", false), machine("elsewhere", "node-2", true),
	}
	const kcp, drained = "kubeadmcontrolplane ns/demo-cp", "machine ns/drained"
	running := func(conditions ...string) *corev1.Pod {
		return pod("etcd", "control-plane", corev1.PodRunning, conditions...)
	}
	cases := map[string]struct {
		old, new *corev1.Pod // nil: the Pod does not exist
		want     []string
	}{
		"a control plane Pod appears":       {nil, running(), []string{kcp}},
		"a control plane Pod becomes ready": {running("Ready=False"), running("Ready=True"), []string{kcp}},
		"a control plane Pod is scheduled":  {running(), running("PodScheduled=True"), []string{kcp}},
		"a control plane Pod changes its phase": {pod("etcd", "control-plane", corev1.PodPending), running(),
			[]string{kcp}},
		"a control plane Pod changes, but not in its health": {running("Ready=True"), running("Ready=True"), nil},
		"a control plane Pod disappears":                     {running(), nil, []string{kcp, drained}},
		"another Pod appears":                                {nil, pod("coredns", "", corev1.PodRunning), nil},
		"another Pod becomes ready": {pod("coredns", "", corev1.PodRunning),
			pod("coredns", "", corev1.PodRunning, "Ready=True"), nil},
		"a Pod leaves a Node in a drain": {pod("coredns", "", corev1.PodRunning), nil, []string{drained}},
		"a Pod on a Node in a drain ends": {pod("job", "", corev1.PodRunning), pod("job", "", corev1.PodSucceeded),
			[]string{drained}},
		"a Pod that had ended changes": {pod("job", "", corev1.PodFailed), pod("job", "", corev1.PodFailed), nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cache, woken := started(t, objects...)
			h := (&podWatcher{cache: cache}).handler(types.NamespacedName{Namespace: "ns", Name: "demo"})
			trim := func(p *corev1.Pod) *corev1.Pod { // as the cache returns it
				out, err := TrimPod(p)
				if err != nil {
					t.Fatal(err)
				}
				return out.(*corev1.Pod)
			}
			switch {
			case c.old == nil:
				h.Create(t.Context(), event.TypedCreateEvent[*corev1.Pod]{Object: trim(c.new)}, nil)
			case c.new == nil:
				h.Delete(t.Context(), event.TypedDeleteEvent[*corev1.Pod]{Object: trim(c.old)}, nil)
			default:
				h.Update(t.Context(), event.TypedUpdateEvent[*corev1.Pod]{ObjectOld: trim(c.old), ObjectNew: trim(c.new)}, nil)
			}
			if got := woken(); !slices.Equal(got, c.want) {
				t.Errorf("the woken controllers are %v, want %v", got, c.want)
			}
		})
	}
}

func TestOtherControlPlanesAreNotNudged(t *testing.T) {
	cluster := &clusterv1.Cluster{ObjectMeta: object("demo")}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{Kind: "OtherControlPlane", Name: "demo-cp"}
	cache, woken := started(t, cluster)
	cache.controlPlanePodChanged(t.Context(), types.NamespacedName{Namespace: "ns", Name: "demo"})
	cache.controlPlanePodChanged(t.Context(), types.NamespacedName{Namespace: "ns", Name: "no-such-cluster"})
	if got := woken(); len(got) != 0 {
		t.Errorf("woken for a control plane of another kind: %v", got)
	}
}

func TestMachineSets(t *testing.T) {
	set := func(name string, want, have int32) *clusterv1.MachineSet {
		ms := &clusterv1.MachineSet{ObjectMeta: object(name)}
		ms.Spec.Replicas, ms.Status.Replicas = &want, &have
		return ms
	}
	deleted := set("deleted", 2, 0)
	deleted.DeletionTimestamp, deleted.Finalizers = ptr.To(metav1.Now()), []string{"keep"}
	cache, woken := started(t, set("held-back", 2, 1), set("complete", 2, 2), deleted)
	cache.controlPlaneChanged(t.Context(), &controlplanev1.KubeadmControlPlane{ObjectMeta: object("demo-cp")})
	if got, want := woken(), []string{"machineset ns/held-back"}; !slices.Equal(got, want) {
		t.Errorf("the woken controllers are %v, want %v", got, want)
	}
}

// TestTopologies: Clusters that may wait for an extension are reconciled soon after its discovery.
func TestTopologies(t *testing.T) {
	cluster := func(name string, reconciled metav1.ConditionStatus) *clusterv1.Cluster {
		c := &clusterv1.Cluster{ObjectMeta: object(name)}
		c.Spec.Topology.ClassRef.Name = "local"
		c.Status.Conditions = []metav1.Condition{{Type: clusterv1.ClusterTopologyReconciledCondition, Status: reconciled}}
		return c
	}
	deleted, pending := cluster("deleted", metav1.ConditionTrue), cluster("pending", metav1.ConditionTrue)
	deleted.DeletionTimestamp, deleted.Finalizers = ptr.To(metav1.Now()), []string{"keep"}
	pending.Annotations = map[string]string{runtimev1.PendingHooksAnnotation: "AfterClusterUpgrade"}
	plain := cluster("without-topology", metav1.ConditionFalse)
	plain.Spec.Topology = clusterv1.Topology{}
	synctest.Test(t, func(t *testing.T) {
		cache, woken := started(t, cluster("held-back", metav1.ConditionFalse), cluster("done", metav1.ConditionTrue),
			deleted, pending, plain)
		cache.extensionDiscovered(t.Context())
		synctest.Wait()
		if got := woken(); len(got) != 0 {
			t.Errorf("woken before the extension is registered: %v", got)
		}
		time.Sleep(registerPause)
		synctest.Wait()
		if got, want := woken(), []string{"topology/cluster ns/deleted", "topology/cluster ns/held-back",
			"topology/cluster ns/pending"}; !slices.Equal(got, want) {
			t.Errorf("the woken controllers are %v, want %v", got, want)
		}
	})
}

func TestDiscovered(t *testing.T) {
	config := func(status metav1.ConditionStatus, generation int64, handlers ...string) *runtimev1.ExtensionConfig {
		e := &runtimev1.ExtensionConfig{}
		if status != "" {
			e.Status.Conditions = []metav1.Condition{
				{Type: runtimev1.ExtensionConfigDiscoveredCondition, Status: status, ObservedGeneration: generation},
			}
		}
		for _, h := range handlers {
			e.Status.Handlers = append(e.Status.Handlers, runtimev1.ExtensionHandler{Name: h})
		}
		return e
	}
	for name, c := range map[string]struct {
		old, new *runtimev1.ExtensionConfig
		want     bool
	}{
		"the first discovery": {config("", 0), config(metav1.ConditionTrue, 1, "a"), true},
		"a discovery after a failed one": {config(metav1.ConditionFalse, 1, "a"),
			config(metav1.ConditionTrue, 1, "a"), true},
		"a discovery after a change of the spec": {
			config(metav1.ConditionTrue, 1, "a"), config(metav1.ConditionTrue, 2, "a"), true,
		},
		"a discovery with other handlers": {
			config(metav1.ConditionTrue, 1, "a"), config(metav1.ConditionTrue, 1, "b"), true,
		},
		"no change": {config(metav1.ConditionTrue, 1, "a"),
			config(metav1.ConditionTrue, 1, "a"), false},
		"a failed discovery": {config(metav1.ConditionTrue, 1, "a"),
			config(metav1.ConditionFalse, 2, "a"), false},
		"no discovery yet": {config("", 0), config("", 0), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := discovered(c.old, c.new); got != c.want {
				t.Errorf("discovered returned %v", got)
			}
		})
	}
}

// TestControlPlaneAppears: the Cluster that refers to the control plane is woken, in its namespace, once the caches
// agree.
func TestControlPlaneAppears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refers := func(namespace, name, kind, to string) *clusterv1.Cluster {
			cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
			cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{Kind: kind, Name: to}
			return cluster
		}
		c, woken := started(t, refers("ns", "early", "KubeadmControlPlane", "cp"),
			refers("ns", "other", "KubeadmControlPlane", "other"), refers("ns", "foreign", "OtherControlPlane", "cp"),
			refers("elsewhere", "early", "KubeadmControlPlane", "cp"))
		kcp := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cp"}}
		c.controlPlaneAppeared(t.Context(), kcp)
		if got := woken(); len(got) > 0 {
			t.Errorf("woken before the caches agree: %q", got)
		}
		time.Sleep(appearPause)
		synctest.Wait()
		if got := woken(); !slices.Equal(got, []string{"cluster ns/early"}) {
			t.Errorf("the woken controllers are %q", got)
		}
		kcp.Labels = map[string]string{clusterv1.ClusterNameLabel: "early"}
		kcp.OwnerReferences = []metav1.OwnerReference{{Kind: "Cluster", Name: "early"}}
		c.controlPlaneAppeared(t.Context(), kcp)
		time.Sleep(appearPause)
		synctest.Wait()
		if got := woken(); len(got) > 0 {
			t.Errorf("woken for a control plane that the Cluster has found: %q", got)
		}
	})
}

func TestStatusChanged(t *testing.T) {
	kcp := &controlplanev1.KubeadmControlPlane{ObjectMeta: object("demo-cp")}
	same := kcp.DeepCopy()
	same.Annotations = map[string]string{"a": "b"}
	if statusChanged(kcp, same) {
		t.Error("a changed annotation counts as a change of the status")
	}
	newer := kcp.DeepCopy()
	newer.Status.Version = "v1.36.3"
	if !statusChanged(kcp, newer) {
		t.Error("a changed version in the status does not count as a change")
	}
}

func TestAControllerThatWasNotStartedIsNotNudged(*testing.T) {
	New(inner{}, nil).add(machines, types.NamespacedName{Namespace: "ns", Name: "m"}) // must not panic
}

// TestNamesAreUpstreams fails if an update of Cluster API renames its sources: then nothing would be woken any more.
func TestNamesAreUpstreams(t *testing.T) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]string{
		controlPlanes: "controlplane/kubeadm/reconcilers/kubeadmcontrolplane/kubeadmcontrolplane_controller.go",
		machines:      "core/reconcilers/machine/machine_controller.go",
		machineSets:   "core/reconcilers/machineset/machineset_controller.go",
		topologies:    "core/reconcilers/topology/cluster/cluster_controller.go",
		clusters:      "core/reconcilers/cluster/cluster_controller.go",
	} {
		text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), file))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), `GetClusterSource("`+name+`"`) {
			t.Errorf("%s has no source called %s", file, name)
		}
	}
}
