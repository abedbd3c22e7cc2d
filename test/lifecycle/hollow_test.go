package lifecycle

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/runtime/hooktest"
	"github.com/capstan-dev/capstan/templates"
)

// world is a Cluster of the local class in its own namespace. Nothing of it runs: the test plays its control plane and
// its only worker, which is a Machine of a MachineDeployment.
type world struct {
	*testing.T
	*script
	admin   client.Client
	cached  client.Client // what the reconcilers read
	key     client.ObjectKey
	stop    func()          // stops the reconcilers
	stopped map[string]bool // roles that do not take on the requested version
}

// Roles of Machines.
const (
	controlPlane = "control plane"
	workers      = "workers"
)

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, script: newScript(t), admin: newClient(t), stopped: map[string]bool{}}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "world-"}}
	if err := w.admin.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	w.key = client.ObjectKey{Namespace: namespace.Name, Name: "hollow"}
	w.start()
	t.Cleanup(func() { w.stop() })
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(templates.Local), 4096); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return w
		}
		if err == nil && object.GetKind() == "ClusterClass" {
			err = unstructured.SetNestedField(object.Object, planner+"."+hooktest.Name,
				"spec", "upgrade", "external", "generateUpgradePlanExtension")
		}
		object.SetNamespace(w.key.Namespace)
		if err == nil {
			err = w.admin.Create(t.Context(), object)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// create creates the Cluster, with the finalizer of Cluster API's Cluster controller, which does not run in these
// tests.
func (w *world) create(version string) {
	w.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: w.key.Namespace, Name: w.key.Name, Finalizers: []string{clusterv1.ClusterFinalizer},
	}}
	cluster.Spec.Topology = clusterv1.Topology{
		ClassRef: clusterv1.ClusterClassRef{Name: templates.LocalClass}, Version: version,
		ControlPlane: clusterv1.ControlPlaneTopology{Replicas: ptr.To(int32(1))},
		Workers: clusterv1.WorkersTopology{MachineDeployments: []clusterv1.MachineDeploymentTopology{
			{Class: "default-worker", Name: "md-0", Replicas: ptr.To(int32(1))},
		}},
	}
	if err := w.admin.Create(w.Context(), cluster); err != nil {
		w.Fatal(err)
	}
}

// cluster reads the Cluster.
func (w *world) cluster() *clusterv1.Cluster {
	w.Helper()
	cluster := &clusterv1.Cluster{}
	if err := w.admin.Get(w.Context(), w.key, cluster); err != nil {
		w.Fatal(err)
	}
	return cluster
}

// patch changes an object, or its status if status is set.
func (w *world) patch(object client.Object, status bool, change func()) {
	w.Helper()
	from := client.MergeFrom(object.DeepCopyObject().(client.Object))
	change()
	var err error
	if status {
		err = w.admin.Status().Patch(w.Context(), object, from)
	} else {
		err = w.admin.Patch(w.Context(), object, from)
	}
	if err != nil {
		w.Fatal(err)
	}
}

// initialized marks the control plane as initialized.
func (w *world) initialized() {
	w.Helper()
	cluster := w.cluster()
	w.patch(cluster, true, func() {
		conditions.Set(cluster, metav1.Condition{
			Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue, Reason: "Played",
		})
	})
}

// pending returns the hooks that Cluster API still has to call.
func (w *world) pending() string {
	w.Helper()
	return w.cluster().Annotations[runtimev1.PendingHooksAnnotation]
}

// upgrade sets the version of the topology.
func (w *world) upgrade(version string) {
	w.Helper()
	cluster := w.cluster()
	w.patch(cluster, false, func() { cluster.Spec.Topology.Version = version })
}

// parts returns the control plane and the MachineDeployment, or nil for one that does not exist.
func (w *world) parts() (kcp *controlplanev1.KubeadmControlPlane, md *clusterv1.MachineDeployment) {
	w.Helper()
	controlPlanes, deployments := &controlplanev1.KubeadmControlPlaneList{}, &clusterv1.MachineDeploymentList{}
	err := errors.Join(w.admin.List(w.Context(), controlPlanes, client.InNamespace(w.key.Namespace)),
		w.admin.List(w.Context(), deployments, client.InNamespace(w.key.Namespace)))
	if err != nil {
		w.Fatal(err)
	}
	if len(controlPlanes.Items) > 0 {
		kcp = &controlPlanes.Items[0]
	}
	if len(deployments.Items) > 0 {
		md = &deployments.Items[0]
	}
	return kcp, md
}

// versions returns the requested versions of control plane and workers.
func (w *world) versions() string {
	w.Helper()
	kcp, md := w.parts()
	if kcp == nil || md == nil {
		return "none"
	}
	return kcp.Spec.Version + " " + md.Spec.Template.Spec.Version
}

// roll gives control plane and workers the requested versions, unless the test has stopped them.
func (w *world) roll() {
	w.Helper()
	kcp, md := w.parts()
	if kcp != nil {
		w.adopt(kcp)
	}
	// A rollout takes longer than one reconcile. Otherwise Cluster API v1.14.2 would lose a hook: when one step follows
	// another, Cluster API removes AfterControlPlaneUpgrade from the pending hooks, and adds the hook again only while it
	// sees the control plane roll.
	rolls := kcp != nil && (kcp.Status.Version == "" ||
		strings.Contains(w.says(), "KubeadmControlPlane upgrading to version "+kcp.Spec.Version))
	if rolls && !w.stopped[controlPlane] && kcp.Status.Version != kcp.Spec.Version {
		w.patch(kcp, true, func() {
			kcp.Status.Version, kcp.Status.ObservedGeneration = kcp.Spec.Version, kcp.Generation
			kcp.Status.Replicas, kcp.Status.UpToDateReplicas = ptr.To(int32(1)), ptr.To(int32(1))
			kcp.Status.ReadyReplicas, kcp.Status.AvailableReplicas = ptr.To(int32(1)), ptr.To(int32(1))
			kcp.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
		})
	}
	if md != nil && !w.stopped[workers] {
		w.rollWorker(md, md.Spec.Template.Spec.Version)
	}
}

// adopt makes the Cluster the owner of the control plane, as Cluster API's Cluster controller does, so that changes of
// the control plane trigger the topology's reconciler.
func (w *world) adopt(kcp *controlplanev1.KubeadmControlPlane) {
	w.Helper()
	cluster := w.cluster()
	owner := metav1.OwnerReference{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID,
		Controller: ptr.To(true),
	}
	if !util.HasOwnerRef(kcp.OwnerReferences, owner) {
		w.patch(kcp, false, func() { kcp.OwnerReferences = append(kcp.OwnerReferences, owner) })
	}
}

// rollWorker gives the worker a version. The topology's reconciler does not watch Machines, so rollWorker also changes
// an annotation of the MachineDeployment, to trigger the reconciler.
func (w *world) rollWorker(md *clusterv1.MachineDeployment, version string) {
	w.Helper()
	machine := &clusterv1.Machine{}
	err := w.admin.Get(w.Context(), w.key, machine)
	switch {
	case client.IgnoreNotFound(err) != nil:
		w.Fatal(err)
	case err != nil:
		machine.Namespace, machine.Name, machine.Labels = w.key.Namespace, w.key.Name, md.Spec.Selector.MatchLabels
		machine.Spec = *md.Spec.Template.Spec.DeepCopy()
		machine.Spec.Version = version
		machine.Spec.Bootstrap = clusterv1.Bootstrap{DataSecretName: ptr.To("none")}
		if err := w.admin.Create(w.Context(), machine); err != nil {
			w.Fatal(err)
		}
	case machine.Spec.Version == version:
		return
	default:
		w.patch(machine, false, func() { machine.Spec.Version = version })
	}
	w.patch(md, false, func() { metav1.SetMetaDataAnnotation(&md.ObjectMeta, "test.capstan.dev/worker", version) })
}

// until plays the control plane and the workers until a condition holds.
func (w *world) until(what string, is func() error) {
	w.Helper()
	deadline, tick := time.After(limit), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for {
		w.roll()
		err := is()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			w.Fatalf("not in time: %s: %v; the topology says %s", what, err, w.says())
		case <-tick.C:
		}
	}
}

// says returns what the Cluster says about its topology.
func (w *world) says() string {
	c := conditions.Get(w.cluster(), clusterv1.ClusterTopologyReconciledCondition)
	if c == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message)
}
