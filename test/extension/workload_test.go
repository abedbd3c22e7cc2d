package extension

import (
	"context"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/extension/addon"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/hooktest"
	"github.com/capstan-dev/capstan/runtime/sample"
)

func create(t *testing.T, object client.Object) {
	t.Helper()
	if err := admin.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := admin.Delete(context.Background(), object); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
}

// newCluster creates a Cluster with a kubeconfig and a control plane Machine.
func newCluster(t *testing.T, name string) *clusterv1.Cluster {
	t.Helper()
	create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name + "-kubeconfig"},
		Data:       map[string][]byte{"value": server.Kubeconfig},
	})
	forget(t)
	cluster := sample.Cluster()
	cluster.Name = name
	return cluster
}

// forget removes the inventory at the end of the test, because the next test has another cluster.
func forget(t *testing.T) {
	t.Cleanup(func() {
		inventory := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: addon.InventoryNamespace, Name: addon.InventoryName},
		}
		if err := admin.Delete(context.Background(), inventory); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
}

func addOn(name, versions, manifest string) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{addon.Label: "shop"}},
		Data:       map[string]string{"manifest.yaml": manifest},
	}
	if versions != "" {
		cm.Annotations = map[string]string{addon.VersionsAnnotation: versions}
	}
	return cm
}

func colour(t *testing.T, name string) string {
	t.Helper()
	cm := &corev1.ConfigMap{}
	err := admin.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, cm)
	if apierrors.IsNotFound(err) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return cm.Data["colour"]
}

func config(name, colour string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata: {colour: " + colour + "}\n"
}

// TestAddOnsThroughTheLifeOfACluster: a new cluster gets the add-ons of its version, an upgrade brings the next
// version, objects that are no longer wanted are removed, and drift is reported and corrected, all with the rights of
// the extension.
func TestAddOnsThroughTheLifeOfACluster(t *testing.T) {
	cluster := newCluster(t, "addons")
	create(t, addOn("shop-1-35", "~1.35", config("shop", "red")+"---\n"+config("old", "grey")))
	create(t, addOn("shop-1-36", "~1.36", config("shop", "blue")))
	e := serve(t, nil)

	cluster.Spec.Topology.Version = sample.From
	created, err := hooktest.CallOne(t, e, hook.AfterControlPlaneInitialized, "add-ons-create",
		&runtimehooksv1.AfterControlPlaneInitializedRequest{Cluster: *cluster})
	if err != nil || created.Message != "add-ons: 2 applied" || colour(t, "shop") != "red" || colour(t, "old") != "grey" {
		t.Fatalf("got %+v, %v: shop is %q, old is %q", created, err, colour(t, "shop"), colour(t, "old"))
	}

	drifted := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop"}, Data: map[string]string{"colour": "pink"},
	}
	if err := admin.Update(t.Context(), drifted); err != nil {
		t.Fatal(err)
	}
	cluster.Spec.Topology.Version = sample.To
	for range 3 { // the hook is called repeatedly while another extension blocks it
		before, err := hooktest.CallOne(t, e, hook.BeforeClusterUpgrade, "add-ons-before-upgrade",
			&runtimehooksv1.BeforeClusterUpgradeRequest{
				Cluster: *cluster, FromKubernetesVersion: sample.From, ToKubernetesVersion: sample.To,
			})
		if err != nil || before.RetryAfterSeconds != 0 ||
			before.Message != "add-ons: 1 changed since they were applied: ConfigMap shop" || colour(t, "shop") != "pink" {
			t.Errorf("got %+v, %v", before, err)
		}
	}
	events := &corev1.EventList{}
	if err := admin.List(t.Context(), events, client.InNamespace("default")); err != nil {
		t.Fatal(err)
	}
	told := 0
	for _, event := range events.Items {
		if event.Reason == "AddOnDrift" && event.InvolvedObject.Name == "addons" && event.Type == corev1.EventTypeWarning {
			told++
		}
	}
	if told != 1 {
		t.Errorf("%d Events report the drift, want 1", told)
	}

	after, err := hooktest.CallOne(t, e, hook.AfterControlPlaneUpgrade, "add-ons-control-plane",
		&runtimehooksv1.AfterControlPlaneUpgradeRequest{Cluster: *cluster, KubernetesVersion: sample.To})
	if err != nil || after.RetryAfterSeconds != 0 || after.Message != "add-ons: 1 applied, 1 removed" ||
		colour(t, "shop") != "blue" || colour(t, "old") != "" {
		t.Errorf("got %+v, %v: shop is %q, old is %q", after, err, colour(t, "shop"), colour(t, "old"))
	}
	if err := admin.Delete(t.Context(), drifted); err != nil {
		t.Fatal(err)
	}
	after, err = hooktest.CallOne(t, e, hook.AfterControlPlaneUpgrade, "add-ons-control-plane",
		&runtimehooksv1.AfterControlPlaneUpgradeRequest{Cluster: *cluster, KubernetesVersion: sample.To})
	if err != nil ||
		after.Message != "add-ons: 1 applied, 1 changed since they were applied, and corrected: ConfigMap shop" ||
		colour(t, "shop") != "blue" {
		t.Errorf("got %+v, %v", after, err)
	}
}

// TestAddOnsThatCanNotBeApplied: each problem of an add-on or of a workload cluster holds back what must wait, and the
// answer says why.
func TestAddOnsThatCanNotBeApplied(t *testing.T) {
	for name, c := range map[string]struct {
		manifest, kubeconfig string
		failure, wait        string
	}{
		"a manifest that is not an object": {
			"a: b: c", "", "reading add-ons: ConfigMap broken, key manifest.yaml: document 1 is not the YAML of an object", "",
		},
		"a kind that does not exist": {"apiVersion: example.org/v1\nkind: Nothing\nmetadata: {name: x}", "", "",
			"add-ons: applying Nothing x of broken/manifest.yaml"},
		"an object that the cluster refuses": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Not_A_Name}", "", "",
			"add-ons: applying ConfigMap Not_A_Name of broken/manifest.yaml"},
		"a bad kubeconfig": {config("x", "red"), "x", "",
			"add-ons: reading the kubeconfig in Secret default/bad-kubeconfig: it is not a kubeconfig"},
		"a cluster that does not answer": {
			config("x", "red"), regexp.MustCompile("server: .*").ReplaceAllString(string(server.Kubeconfig),
				"server: https://127.0.0.1:1"), "", "connection refused",
		},
	} {
		t.Run(name, func(t *testing.T) {
			forget(t)
			cluster := sample.Cluster()
			cluster.Name = "bad"
			kubeconfig := []byte(c.kubeconfig)
			if c.kubeconfig == "" {
				kubeconfig = server.Kubeconfig
			}
			create(t, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "bad-kubeconfig"},
				Data:       map[string][]byte{"value": kubeconfig},
			})
			create(t, addOn("broken", "", c.manifest))
			response, err := hooktest.CallOne(t, serve(t, nil), hook.AfterControlPlaneUpgrade, "add-ons-control-plane",
				&runtimehooksv1.AfterControlPlaneUpgradeRequest{Cluster: *cluster, KubernetesVersion: sample.To})
			switch {
			case c.failure != "":
				if err == nil || !strings.Contains(err.Error(), c.failure) {
					t.Errorf("error is %v, want %s", err, c.failure)
				}
			case err != nil || response.RetryAfterSeconds != 5 || !strings.Contains(response.Message, c.wait):
				t.Errorf("got %+v, %v, want %s", response, err, c.wait)
			}
		})
	}
}

// TestVerification repairs a control plane node step by step. Each time, the remaining problems are named, and workers
// wait.
func TestVerification(t *testing.T) {
	cluster := newCluster(t, "verified")
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane", Name: "verified",
	}
	e := serve(t, nil)
	version, err := kubernetes.NewForConfigOrDie(server.Config).Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	verify := func(version string) string {
		t.Helper()
		response, err := hooktest.CallOne(t, e, hook.AfterControlPlaneUpgrade, "verification-control-plane",
			&runtimehooksv1.AfterControlPlaneUpgradeRequest{Cluster: *cluster, KubernetesVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		if (response.RetryAfterSeconds == 0) != strings.HasPrefix(response.Message, "verified: ") {
			t.Errorf("got %+v", response)
		}
		return response.Message
	}
	machine := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "m", Labels: map[string]string{clusterv1.MachineControlPlaneLabel: ""},
		},
	}
	machine.Spec = clusterv1.MachineSpec{
		ClusterName: "verified", Version: version.GitVersion,
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: "infrastructure.capstan.dev", Kind: "CapstanMachine", Name: "m",
		},
	}
	dataSecret := "m"
	machine.Spec.Bootstrap.DataSecretName = &dataSecret
	create(t, machine)
	if got := verify(version.GitVersion); got != "verification: Machine m has no Node yet" {
		t.Error(got)
	}
	machine.Status.NodeRef.Name = "n"
	if err := admin.Status().Update(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	if got := verify(version.GitVersion); got != "verification: Node n of Machine m does not exist" {
		t.Error(got)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	create(t, node)
	node.Status.NodeInfo.KubeletVersion = version.GitVersion
	node.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady"},
	}
	if err := admin.Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	if got := verify(version.GitVersion); !strings.HasPrefix(got,
		"verification: Node n is not Ready (KubeletNotReady); kube-apiserver on Node n has no Pod; ") {
		t.Error(got)
	}
	node.Status.Conditions[0].Status = corev1.ConditionTrue
	if err := admin.Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	for _, component := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "kube-system", Name: component + "-n",
				Labels: map[string]string{"component": component, "tier": "control-plane"},
			},
			Spec: corev1.PodSpec{NodeName: "n", HostNetwork: true, Containers: []corev1.Container{{
				Name: component, Image: "example.org/" + component + ":" + strings.ReplaceAll(version.GitVersion, "+", "_"),
			}}},
		}
		create(t, pod)
		zero := int64(0)
		t.Cleanup(func() { _ = admin.Delete(context.Background(), pod, &client.DeleteOptions{GracePeriodSeconds: &zero}) })
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		if err := admin.Status().Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	create(t, addOn("extra", "", config("extra", "red")))
	if got := verify(version.GitVersion); got != "verification: add-on ConfigMap extra is not as wanted" {
		t.Error(got)
	}
	cluster.Labels = map[string]string{"extensions.capstan.dev/add-ons": "disabled"}
	if got := verify(version.GitVersion); got != "verified: API server, control plane, add-ons, and 1 of the Cluster's "+
		"Nodes" {
		t.Error(got)
	}
	if got := verify("v1.99.0"); !strings.HasPrefix(got,
		"verification: the API server has version "+version.GitVersion+", not v1.99.0; Node n has version ") {
		t.Error(got)
	}
}
