package metricsapi

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// node returns a Node whose kubelet listens at a URL.
func node(t *testing.T, name, url string) *corev1.Node {
	t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if url == "" {
		return n
	}
	host, port, err := net.SplitHostPort(strings.TrimPrefix(url, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "elsewhere.example"},
		{Type: corev1.NodeInternalIP, Address: host}}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	n.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(number)
	return n
}

func TestKubelets(t *testing.T) {
	serve := func(h http.HandlerFunc) string {
		s := httptest.NewTLSServer(h)
		t.Cleanup(s.Close)
		return s.URL
	}
	good := serve(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics/resource" || r.Header.Get("Authorization") != "Bearer for-kubelets" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.Write([]byte("node_cpu_usage_seconds_total 300 6000000\n"))
	})
	elsewhere := serve(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("a redirect led to %s", r.Host) })
	redirects := serve(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere, http.StatusFound) })
	refuses := serve(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	api := fake.NewClientset(node(t, "good", good), node(t, "redirects", redirects), node(t, "refuses", refuses),
		node(t, "nowhere", ""))
	tokens := 0
	api.PrependReactor("create", "serviceaccounts", func(a clienttesting.Action) (bool, runtime.Object, error) {
		create := a.(clienttesting.CreateActionImpl)
		if create.Name != KubeletAccount || create.Namespace != Namespace || create.Subresource != "token" {
			t.Errorf("asked for %+v", create)
		}
		tokens++
		return true, &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{
			Token: "for-kubelets", ExpirationTimestamp: metav1.NewTime(time.Now().Add(tokenMargin + time.Minute)),
		}}, nil
	})
	k := newKubelets(api, slog.New(slog.DiscardHandler))
	t.Cleanup(k.client.CloseIdleConnections)
	for range 2 {
		nodes, err := k.read(t.Context())
		if err != nil || len(nodes) != 1 || nodes["good"][container{}].cpu != 300 {
			t.Errorf("got %v, %v", nodes, err)
		}
	}
	if tokens != 1 {
		t.Errorf("the reader requested %d tokens, want one", tokens)
	}
	k.expires = time.Now().Add(tokenMargin)
	if _, err := k.read(t.Context()); err != nil || tokens != 2 {
		t.Errorf("after the token expired: %v, %d tokens requested, want two", err, tokens)
	}
}
