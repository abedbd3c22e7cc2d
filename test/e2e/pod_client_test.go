package e2e

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/remotecommand"
)

// connect creates a client of the cluster, whose address stays the same when the dock restarts. The client uses a new
// connection for each request, so that it never waits on a connection that a kill has broken.
func (k *podKills) connect(t *testing.T) {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(must(t, "cluster", "kubeconfig", killedCluster)))
	if err != nil {
		t.Fatal(err)
	}
	config.Timeout = 10 * time.Second
	config.QPS, config.Burst = -1, -1
	config.Dial = (&net.Dialer{Timeout: 5 * time.Second}).DialContext
	if k.client, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	k.config = config
}

// planeAnswers returns an error unless the management plane is ready.
func planeAnswers(t *testing.T) error {
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(homeDir, "kubeconfig"))
	if err != nil {
		return err
	}
	config.Timeout = 10 * time.Second
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	_, err = client.RESTClient().Get().AbsPath("/readyz").DoRaw(t.Context())
	return err
}

// pods returns all pods of the cluster.
func (k *podKills) pods(t *testing.T) ([]corev1.Pod, error) {
	list, err := k.client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// deleteSomePod deletes one of the pods that may be replaced.
func (k *podKills) deleteSomePod(t *testing.T) {
	t.Helper()
	pods := k.client.CoreV1().Pods("default")
	list, err := pods.List(t.Context(), metav1.ListOptions{LabelSelector: "deleted=often"})
	if err != nil || len(list.Items) == 0 {
		t.Fatalf("found %d pods to delete, %v", len(list.Items), err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	victim := list.Items[k.random.IntN(len(list.Items))].Name
	if err := pods.Delete(t.Context(), victim, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// static reports whether a pod is a component that runs from the bundle.
func static(p corev1.Pod) bool { return p.Annotations[corev1.MirrorPodAnnotationKey] != "" }

// answers returns an error unless the kept pods and their Service answer by name, and the host ports answer.
func (k *podKills) answers(t *testing.T, pods []corev1.Pod) error {
	want := map[string]string{}
	for i := range keptPods {
		name := fmt.Sprintf("kept-%d", i)
		want["http://"+name+".each.default.svc.cluster.local/"] = name
	}
	for _, p := range pods {
		if p.Labels["app"] == "port" {
			want["http://"+p.Status.HostIP+":18300/"] = p.Name
		}
	}
	want["http://kept/"] = "kept-"
	for url, answer := range want {
		if got, err := k.get(t, url); err != nil || !strings.HasPrefix(got, answer) {
			return cmp.Or(err, fmt.Errorf("%s answers %q, want %q", url, got, answer))
		}
	}
	return nil
}

// get returns the answer that a kept pod gets from a URL.
func (k *podKills) get(t *testing.T, url string) (string, error) {
	request := k.client.CoreV1().RESTClient().Post().Namespace("default").Resource("pods").Name("kept-0").
		SubResource("exec").VersionedParams(&corev1.PodExecOptions{
		Container: "main", Command: []string{"/counted", "get", url}, Stdout: true, Stderr: true,
	}, scheme.ParameterCodec)
	executor, err := remotecommand.NewSPDYExecutor(k.config, "POST", request.URL())
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var out, errOut bytes.Buffer
	if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out, Stderr: &errOut}); err != nil {
		return "", fmt.Errorf("%s: %w: %s", url, err, errOut.String())
	}
	return strings.TrimSpace(out.String()), nil
}
