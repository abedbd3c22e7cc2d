package plane_test

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// workload is an API server that has no objects. The plane connects to it.
type workload struct {
	*httptest.Server
	asked chan struct{} // has an item for each health probe
	stuck atomic.Bool   // whether requests get no answer
}

func newWorkload(t *testing.T) *workload {
	w := &workload{asked: make(chan struct{}, 1000)}
	w.Server = httptest.NewTLSServer(w)
	t.Cleanup(w.Close)
	return w
}

func (w *workload) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/" {
		select {
		case w.asked <- struct{}{}:
		default:
		}
	}
	rw.Header().Set("Content-Type", "application/json")
	answers := map[string]string{
		"/":     `{"kind":"Status"}`,
		"/api":  `{"kind":"APIVersions","versions":["v1"]}`,
		"/apis": `{"kind":"APIGroupList","groups":[]}`,
		"/api/v1": `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"nodes","kind":"Node"},` +
			`{"name":"pods","kind":"Pod","namespaced":true}]}`,
		"/api/v1/nodes": `{"type":"BOOKMARK","object":{"kind":"Node","apiVersion":"v1","metadata":{"resourceVersion":"1",` +
			`"annotations":{"k8s.io/initial-events-end":"true"}}}}`,
	}
	answer, known := answers[r.URL.Path]
	if !known {
		rw.WriteHeader(http.StatusNotFound)
	}
	stuck := w.stuck.Load()
	if !stuck {
		io.WriteString(rw, answer)
		http.NewResponseController(rw).Flush()
	}
	if stuck || r.URL.Query().Get("watch") != "" {
		<-r.Context().Done()
	}
}

// kubeconfig returns a kubeconfig as the Secret of a cluster has it.
func (w *workload) kubeconfig() []byte {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.Certificate().Raw})
	return fmt.Appendf(nil, `{"current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
		"clusters":[{"name":"c","cluster":{"server":%q,"certificate-authority-data":%q}}],
		"users":[{"name":"u","user":{"token":"t"}}]}`, w.URL, base64.StdEncoding.EncodeToString(ca))
}

// await waits for a health probe.
func (w *workload) await(t *testing.T, what string) {
	t.Helper()
	select {
	case <-w.asked:
	case <-time.After(patience):
		t.Fatalf("waited %s for %s", patience, what)
	}
}

// drain forgets all health probes so far.
func (w *workload) drain() {
	for len(w.asked) > 0 {
		<-w.asked
	}
}

// checkRecreation deletes a Cluster and creates another one of the same name while the plane waits for an answer of the
// old cluster's API server. The plane must then connect to the new cluster's, and leave the old one alone.
func checkRecreation(t *testing.T, ctx context.Context, c client.Client) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "recreate-"}}
	if err := c.Create(ctx, namespace); err != nil {
		t.Fatal(err)
	}
	before, after := newWorkload(t), newWorkload(t)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace.Name, Name: "twice-kubeconfig", Labels: map[string]string{clusterv1.ClusterNameLabel: "twice"},
		},
		Type: clusterv1.ClusterSecretType, Data: map[string][]byte{"value": before.kubeconfig()},
	}
	if err := c.Create(ctx, secret); err != nil {
		t.Fatal(err)
	}
	create := func() *clusterv1.Cluster {
		t.Helper()
		cluster := &clusterv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "twice"},
			Spec: clusterv1.ClusterSpec{
				ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 6443},
				ControlPlaneRef: clusterv1.ContractVersionedObjectReference{ // there is none; the plane connects anyway
					APIGroup: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane", Name: "none",
				},
			},
		}
		if err := c.Create(ctx, cluster); err != nil {
			t.Fatal(err)
		}
		return cluster
	}
	remove := func(cluster *clusterv1.Cluster) {
		t.Helper()
		if err := c.Delete(ctx, cluster); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the Cluster to be gone", func() error {
			if err := c.Get(ctx, client.ObjectKeyFromObject(cluster), cluster); !apierrors.IsNotFound(err) {
				return fmt.Errorf("reading the Cluster: %v", err)
			}
			return nil
		})
	}
	cluster := create()
	before.await(t, "the plane to connect")
	eventually(t, "the plane to have connected", func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(cluster), cluster); err != nil {
			return err
		}
		for _, condition := range cluster.Status.Conditions {
			if condition.Type == clusterv1.ClusterRemoteConnectionProbeCondition && condition.Status == metav1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("the conditions of the Cluster are %+v", cluster.Status.Conditions)
	})
	before.stuck.Store(true)
	before.drain()
	before.await(t, "the next health probe, every ten seconds")
	remove(cluster)
	secret.Data["value"] = after.kubeconfig()
	if err := c.Update(ctx, secret); err != nil {
		t.Fatal(err)
	}
	cluster = create()
	before.drain()
	// With the old connection, the plane asks the old API server every ten seconds, until the fifth probe has failed.
	select {
	case <-after.asked:
	case <-before.asked:
		t.Error("the plane asked the API server of the deleted Cluster again")
	case <-time.After(patience):
		t.Errorf("the plane did not connect within %s", patience)
	}
	remove(cluster)
}
