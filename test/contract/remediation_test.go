//go:build linux

package contract

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestMachinesThatFailAreReplacedAtOnce runs upstream's own reconcilers: a machine whose bootstrap has failed is
// replaced at once, although its health check would wait for an hour.
func TestMachinesThatFailAreReplacedAtOnce(t *testing.T) {
	for _, version := range versions {
		// Don't run versions in parallel: the contract labels of definitions apply to the whole API server.
		t.Run(string(version), func(t *testing.T) { failedAreReplaced(t, form{version}) })
	}
}

func failedAreReplaced(t *testing.T, f form) {
	w := newWorld(t, f, 4, func(w *world) { w.infra.nodes = true })
	w.serveContract()
	stop, err := startKubeadm(t.Context(), w.ns)
	w.must(err)
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("core ended with: %v", err)
		}
	})

	w.infra.set(func() { w.infra.failNext = 1 })
	w.newControlPlane("demo", controlplanev1.KubeadmControlPlaneRemediationSpec{MaxRetry: ptr.To[int32](5)})
	first := w.onlyControlPlane("demo", func(*clusterv1.Machine) bool { return true })
	second := w.onlyControlPlane("demo", func(m *clusterv1.Machine) bool {
		return m.Name != first.Name && m.Status.NodeRef.IsDefined()
	})
	if _, ok := second.Annotations[controlplanev1.RemediationForAnnotation]; !ok {
		t.Errorf("machine %s is not marked as a replacement: its annotations are %v", second.Name, second.Annotations)
	}

	set := "pool-" + string(f.Version)
	w.initialized("demo")
	w.infra.set(func() { w.infra.failNext = 1 })
	w.newMachineSet(set, "demo", 1)
	w.create(w.healthCheck(set, "demo", map[string]string{clusterv1.MachineSetNameLabel: set}))
	failed := ""
	w.until("the machine that failed is replaced", func() bool {
		machines := w.machinesOf(set)
		if len(machines) == 1 && failed == "" {
			failed = machines[0].Name
		}
		return len(machines) == 1 && machines[0].Name != failed && machines[0].Status.NodeRef.IsDefined()
	})
	if f.Version == v1beta2 { // in v1beta1, core itself should replace the machine
		t.Attr("rule", "IM-26 v1beta2")
	}
	soleIsKept(w, second)
}

// soleIsKept requests the replacement of the only machine of an initialized control plane, which is refused.
func soleIsKept(w *world, machine *clusterv1.Machine) {
	w.Helper()
	edit(w, read(w, machine.Name, &clusterv1.Machine{}), func(m *clusterv1.Machine) {
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, clusterv1.RemediateMachineAnnotation, "")
	})
	w.until("upstream refuses to replace the only machine", func() bool {
		c := conditions.Get(read(w, machine.Name, &clusterv1.Machine{}), clusterv1.MachineOwnerRemediatedCondition)
		return c != nil && c.Reason == controlplanev1.KubeadmControlPlaneMachineCannotBeRemediatedReason &&
			strings.Contains(c.Message, "replicas are less or equal to 1")
	})
	if m := read(w, machine.Name, &clusterv1.Machine{}); !m.DeletionTimestamp.IsZero() {
		w.Error("the only machine of the control plane is being deleted")
	}
}

// TestAControlPlaneIsNotReplacedForEver makes every machine of a control plane fail: upstream gives up after maxRetry.
func TestAControlPlaneIsNotReplacedForEver(t *testing.T) {
	f := form{v1beta2}
	w := newWorld(t, f, 3, func(w *world) { w.infra.nodes, w.infra.failNext = true, 100 })
	w.serveContract()
	stop, err := startKubeadm(t.Context(), w.ns)
	w.must(err)
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("core ended with: %v", err)
		}
	})
	w.newControlPlane("demo", controlplanev1.KubeadmControlPlaneRemediationSpec{MaxRetry: ptr.To[int32](0)})
	last := w.onlyControlPlane("demo", func(m *clusterv1.Machine) bool {
		c := conditions.Get(m, clusterv1.MachineOwnerRemediatedCondition)
		return c != nil && strings.Contains(c.Message, "already failed 0 times (MaxRetry)")
	})
	made := w.infra.made("create")
	if last.DeletionTimestamp != nil || len(made) != 2 {
		t.Errorf(
			"the last machine has the deletion time %v, want none; started hosts: %v, want 2",
			last.DeletionTimestamp,
			made,
		)
	}
}

// TestADeletionThatNobodyElseFinishes deletes a Cluster that refers to a control plane object that does not exist. So
// no control plane has adopted the machine, and the provider must delete the Machine.
func TestADeletionThatNobodyElseFinishes(t *testing.T) {
	for _, version := range versions {
		t.Run(string(version), func(t *testing.T) {
			w := newWorld(t, form{version}, 3, func(w *world) { w.infra.nodes = true })
			w.serveContract()
			stop, err := startKubeadm(t.Context(), w.ns)
			w.must(err)
			t.Cleanup(func() {
				if err := stop(); err != nil {
					t.Errorf("core ended with: %v", err)
				}
			})
			w.upstreamCluster("demo", func(c *clusterv1.Cluster) {
				c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
					APIGroup: controlplanev1.GroupVersion.Group, Kind: "KubeadmControlPlane", Name: "gone",
				}
			})
			w.upstreamMachine("alone-"+string(version), true)
			w.ready("alone-" + string(version))
			w.newCapstanMachine(&clusterv1.Machine{
				ObjectMeta: metav1.ObjectMeta{
					Name: "without-machine",
				}, Spec: clusterv1.MachineSpec{ClusterName: "demo"},
			}, machineOptions{noOwner: true})
			w.delete(read(w, "demo", &clusterv1.Cluster{}))
			w.until("the Cluster and everything that belongs to it is gone", func() bool {
				left := &clusterv1.MachineList{}
				w.must(shared.admin.List(t.Context(), left, client.InNamespace(w.ns)))
				err := shared.admin.Get(
					t.Context(),
					client.ObjectKey{Namespace: w.ns, Name: "demo"},
					&clusterv1.Cluster{},
				)
				return client.IgnoreNotFound(err) == nil && err != nil && len(left.Items) == 0 && w.cluster("demo") == nil &&
					w.machine("without-machine") == nil &&
					len(w.claims()) == 0
			})
		})
	}
}

// onlyControlPlane waits until a cluster has exactly one control plane machine, and accept returns true for that
// machine.
func (w *world) onlyControlPlane(cluster string, accept func(*clusterv1.Machine) bool) *clusterv1.Machine {
	w.Helper()
	var found *clusterv1.Machine
	w.until("the control plane machine of "+cluster+" is in the wanted state", func() bool {
		list := &clusterv1.MachineList{}
		w.must(shared.admin.List(w.Context(), list, client.InNamespace(w.ns),
			client.MatchingLabels{clusterv1.ClusterNameLabel: cluster, clusterv1.MachineControlPlaneLabel: ""}))
		list.Items = slices.DeleteFunc(
			list.Items,
			func(m clusterv1.Machine) bool { return !m.DeletionTimestamp.IsZero() },
		)
		if len(list.Items) == 1 && accept(&list.Items[0]) {
			found = &list.Items[0]
		}
		return found != nil
	})
	return found
}

// initialized makes upstream believe that kubeadm has set up the control plane.
func (w *world) initialized(cluster string) {
	w.Helper()
	config := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kubeadm-config"},
		Data: map[string]string{
			"ClusterConfiguration": "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n",
		},
	}
	w.create(config)
	w.Cleanup(func() { w.must(shared.admin.Delete(context.Background(), config)) })
	w.until("the control plane of "+cluster+" is initialized", func() bool {
		kcp := read(w, cluster, &controlplanev1.KubeadmControlPlane{})
		return ptr.Deref(kcp.Status.Initialization.ControlPlaneInitialized, false)
	})
}
