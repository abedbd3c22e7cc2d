package verify

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/extension/addon"
	"github.com/capstan-dev/capstan/extension/part"
	"github.com/capstan-dev/capstan/extension/part/parttest"
	"github.com/capstan-dev/capstan/extension/workload"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/hooktest"
	"github.com/capstan-dev/capstan/runtime/sample"
)

// addOnsAreOn replaces the part for add-ons, and is switched on.
var addOnsAreOn = part.Part{Name: addon.Name}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answers are an API server's answers, by path.
type answers map[string]any

// rightAnswers returns the answers of a cluster with one control plane and one worker, where everything is right.
func rightAnswers() answers {
	node := func(name string) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Status.NodeInfo.KubeletVersion = sample.To
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		return n
	}
	pods := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
	for _, component := range components {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: component, Labels: map[string]string{"component": component}}}
		p.Spec.NodeName, p.Spec.Containers =
			"cp", []corev1.Container{{Name: component, Image: "example.org/" + component + ":" + sample.To}}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		pods.Items = append(pods.Items, p)
	}
	return answers{
		"/api":  metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}},
		"/apis": metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}},
		"/api/v1": metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList"}, GroupVersion: "v1",
			APIResources: []metav1.APIResource{
				{Name: "nodes", Kind: "Node", Verbs: metav1.Verbs{"list"}},
				{Name: "pods", Kind: "Pod", Namespaced: true, Verbs: metav1.Verbs{"list"}},
				{Name: "configmaps", Kind: "ConfigMap", Namespaced: true, Verbs: metav1.Verbs{"get"}},
			}},
		"/readyz":  "ok",
		"/version": map[string]string{"gitVersion": sample.To},
		"/api/v1/nodes": corev1.NodeList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, Items: []corev1.Node{node("cp"), node("w")},
		},
		"/api/v1/namespaces/kube-system/pods": pods,
	}
}

// serve serves answers, and returns a kubeconfig. A text other than "ok" is a failure.
func serve(t *testing.T, all answers) []byte {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch answer := all[r.URL.Path].(type) {
		case nil:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(metav1.Status{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
				Reason: metav1.StatusReasonNotFound, Code: 404,
			})
		case string:
			if answer != "ok" {
				w.WriteHeader(http.StatusInternalServerError)
			}
			_, _ = w.Write([]byte(answer))
		default:
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(answer)
		}
	}))
	t.Cleanup(s.Close)
	data, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {
			Server:                   s.URL,
			CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {Token: "t"}},
		Contexts:  map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "u"}}, CurrentContext: "c",
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The state of the workload cluster decides whether the Cluster waits. The part checks only the control plane, or
// workers, too.
func TestPart(t *testing.T) {
	addOn := corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: sample.Cluster().Namespace, Name: "shop", Labels: map[string]string{"addons.capstan.dev/add-on": "shop"},
		},
		Data: map[string]string{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"},
	}
	const one, both = "verified: API server, control plane, add-ons, and 1 of the Cluster's Nodes",
		"verified: API server, control plane, add-ons, and 2 of the Cluster's Nodes"
	for name, c := range map[string]struct {
		change       func(answers, *parttest.World, *clusterv1.Cluster)
		controlPlane string
		all          string
	}{
		"all is right": {func(answers, *parttest.World, *clusterv1.Cluster) {}, one, both},
		"a check of /readyz fails": {func(a answers, _ *parttest.World, _ *clusterv1.Cluster) {
			a["/readyz"] = "[+]ping ok\n[-]etcd failed: reason withheld\n"
		}, "verification: the API server is not ready: etcd", "verification: the API server is not ready: etcd"},
		"/readyz names no check": {func(a answers, _ *parttest.World, _ *clusterv1.Cluster) { a["/readyz"] = "" },
			"verification: the API server is not ready: /readyz answers 500",
			"verification: the API server is not ready: /readyz answers 500"},
		"/version is not found": {func(a answers, _ *parttest.World, _ *clusterv1.Cluster) { a["/version"] = nil },
			"verification: reading the version of the API server: it answers 404",
			"verification: reading the version of the API server: it answers 404"},
		"a worker has the old version": {func(a answers, _ *parttest.World, _ *clusterv1.Cluster) {
			a["/api/v1/nodes"].(corev1.NodeList).Items[1].Status.NodeInfo.KubeletVersion = sample.From
		}, one, "verification: Node w has version " + sample.From + ", not " + sample.To},
		"a worker has no condition": {func(a answers, _ *parttest.World, _ *clusterv1.Cluster) {
			a["/api/v1/nodes"].(corev1.NodeList).Items[1].Status.Conditions = nil
		}, one, "verification: Node w is not Ready (no condition yet)"},
		"a Pod is missing": {func(a answers, _ *parttest.World, _ *clusterv1.Cluster) {
			pods := a["/api/v1/namespaces/kube-system/pods"].(corev1.PodList)
			pods.Items = pods.Items[1:]
			a["/api/v1/namespaces/kube-system/pods"] = pods
		}, "verification: kube-apiserver on Node cp has no Pod", "verification: kube-apiserver on Node cp has no Pod"},
		"more findings than a message names": {func(a answers, w *parttest.World, _ *clusterv1.Cluster) {
			nodes := a["/api/v1/nodes"].(corev1.NodeList)
			nodes.Items = nil
			a["/api/v1/nodes"] = nodes
			for range 5 {
				w.Machines = append(w.Machines, w.Machines[1])
			}
		}, "verification: Node cp of Machine cp does not exist",
			"verification: Node cp of Machine cp does not exist" + strings.Repeat("; Node w of Machine w does not exist", 4) +
				"; and 2 more"},
		"a Machine that is being deleted does not count": {func(a answers, w *parttest.World, _ *clusterv1.Cluster) {
			nodes := a["/api/v1/nodes"].(corev1.NodeList)
			nodes.Items = nodes.Items[:1]
			a["/api/v1/nodes"] = nodes
			now := metav1.Now()
			w.Machines[1].DeletionTimestamp = &now
		}, one, one},
		"a Machine of another Cluster does not count": {func(_ answers, w *parttest.World, _ *clusterv1.Cluster) {
			other := w.Machines[1]
			other.Spec.ClusterName, other.Status.NodeRef.Name = "other", "gone"
			w.Machines = append(w.Machines, other)
		}, one, both},
		"an add-on is not applied": {func(_ answers, w *parttest.World, _ *clusterv1.Cluster) {
			w.AddOns = []corev1.ConfigMap{addOn}
		},
			"verification: add-on ConfigMap x is not as wanted",
			"verification: add-on ConfigMap x is not as wanted"},
		"no kubeconfig": {func(_ answers, w *parttest.World, _ *clusterv1.Cluster) { w.Kubeconfigs = nil },
			"verification: there is no kubeconfig: Secret", "verification: there is no kubeconfig: Secret"},
		"no kubeconfig and no Machines": {func(_ answers, w *parttest.World, c *clusterv1.Cluster) {
			w.Kubeconfigs, w.Machines, c.Spec.ControlPlaneRef.Kind = nil, nil, "HostedControlPlane"
		}, "there is nothing to verify: no Machines, no kubeconfig",
			"there is nothing to verify: no Machines, no kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			all, w, cluster := rightAnswers(), parttest.NewWorld(0), sample.Cluster()
			cluster.Spec.ControlPlaneRef.Kind = workload.KubeadmControlPlane.Kind
			for i, node := range []string{"cp", "w"} {
				m := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: node}}
				m.Spec.ClusterName, m.Status.NodeRef.Name = cluster.Name, node
				if i == 0 {
					m.Labels = map[string]string{clusterv1.MachineControlPlaneLabel: ""}
				}
				w.Machines = append(w.Machines, m)
			}
			w.Kubeconfigs = map[string][]byte{cluster.Namespace + "/" + cluster.Name + "-kubeconfig": serve(t, all)}
			c.change(all, w, cluster)
			e := parttest.Serve(t, map[string]string{},
				New(Options{Reader: w, Scheme: scheme.Scheme, Patience: time.Millisecond}), addOnsAreOn)
			controlPlane, err := hooktest.CallOne(t, e, hook.AfterControlPlaneUpgrade, "verification-control-plane",
				&runtimehooksv1.AfterControlPlaneUpgradeRequest{Cluster: *cluster, KubernetesVersion: sample.To})
			said(t, "after the control plane", controlPlane, err, c.controlPlane)
			after, err := hooktest.CallOne(t, e, hook.AfterClusterUpgrade, "verification-upgrade",
				&runtimehooksv1.AfterClusterUpgradeRequest{Cluster: *cluster, KubernetesVersion: sample.To})
			said(t, "after the cluster", after, err, c.all)
		})
	}
}

func said(t *testing.T, when string, response runtimehooksv1.RetryResponseObject, err error, want string) {
	t.Helper()
	retry := int32(0)
	if strings.HasPrefix(want, "verification: ") {
		retry = 5
	}
	if err != nil || !strings.HasPrefix(response.GetMessage(), want) || response.GetRetryAfterSeconds() != retry {
		t.Errorf("%s: %+v, %v, want %s", when, response, err, want)
	}
}
