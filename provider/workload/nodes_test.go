package workload

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

var errRefused = errors.New("refused")

var demo = client.ObjectKey{Namespace: "default", Name: "demo"}

// server answers like the API server of a workload cluster with one Node, w1 of instance "ours". It records the
// requests.
func server(t *testing.T, status int) (kubeconfig []byte, asked *[]string) {
	t.Helper()
	asked = &[]string{}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		line := r.Method + " " + r.URL.Path
		if r.Method == http.MethodDelete {
			if options, err := io.ReadAll(r.Body); err == nil && bytes.Contains(options, []byte("uid-of-w1")) {
				line += " uid-of-w1"
			}
		}
		*asked = append(*asked, line)
		w.Header().Set("Content-Type", "application/json")
		if status != http.StatusOK {
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":"%s"}`, status,
				map[int]string{http.StatusNotFound: "NotFound"}[status])
			return
		}
		fmt.Fprint(w, `{"kind":"Node","apiVersion":"v1","metadata":{"name":"w1","uid":"uid-of-w1"},`+
			`"spec":{"providerID":"ours"}}`)
	}))
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	s.StartTLS()
	t.Cleanup(s.Close)
	text, err := clientcmd.Write(api.Config{
		CurrentContext: "c", Contexts: map[string]*api.Context{"c": {Cluster: "c", AuthInfo: "u"}},
		AuthInfos: map[string]*api.AuthInfo{"u": {Token: "t"}},
		Clusters: map[string]*api.Cluster{"c": {Server: s.URL, CertificateAuthorityData: pem.EncodeToMemory(
			&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return text, asked
}

func TestDelete(t *testing.T) {
	read, remove := "GET /api/v1/nodes/w1", "DELETE /api/v1/nodes/w1 uid-of-w1"
	for name, c := range map[string]struct {
		status int
		id     string
		asked  []string
		fails  string
	}{
		"the Node of the instance":     {status: http.StatusOK, id: "ours", asked: []string{read, remove}},
		"the Node of another instance": {status: http.StatusOK, id: "other", asked: []string{read}},
		"there is no such Node":        {status: http.StatusNotFound, id: "ours", asked: []string{read}},
		"the credentials are not accepted (any more)": {
			status: http.StatusForbidden, id: "ours", asked: []string{read}, fails: "reading Node w1 of cluster default/demo",
		},
	} {
		t.Run(name, func(t *testing.T) {
			kubeconfig, asked := server(t, c.status)
			err := nodes(kubeconfig).Delete(t.Context(), demo, "w1", c.id)
			if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("error %v, want %q", err, c.fails)
			}
			if !slices.Equal(*asked, c.asked) {
				t.Errorf("asked %q, want %q", *asked, c.asked)
			}
		})
	}
}

func TestDeleteWithoutServer(t *testing.T) {
	if err := nodes(nil).Delete(t.Context(), demo, "w1", "ours"); err != nil {
		t.Errorf("without a kubeconfig: %v", err)
	}
	kubeconfig, _ := server(t, http.StatusOK)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := nodes(kubeconfig).Delete(ctx, demo, "w1", "ours"); err == nil {
		t.Error("Delete returns no error although the server can't be asked")
	}
	bad := &Nodes{Reader: nodes(kubeconfig).Reader, Config: func([]byte) (*rest.Config, error) { return nil, errRefused }}
	err := bad.Delete(t.Context(), demo, "w1", "ours")
	if !errors.Is(err, errRefused) || !strings.Contains(err.Error(), "default/demo-kubeconfig is refused") {
		t.Errorf("with a refused kubeconfig, the error is %v", err)
	}
}

func config(text []byte) (*rest.Config, error) { return clientcmd.RESTConfigFromKubeConfig(text) }

// nodes returns a Nodes that reads from a management cluster with this kubeconfig of cluster demo; nil means none.
func nodes(kubeconfig []byte) *Nodes {
	b := fake.NewClientBuilder()
	if kubeconfig != nil {
		b = b.WithObjects(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-kubeconfig"},
			Data:       map[string][]byte{"value": kubeconfig},
		})
	}
	return &Nodes{Reader: b.Build(), Config: config}
}
