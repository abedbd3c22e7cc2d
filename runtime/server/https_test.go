package server_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/internal/testtls"
	"github.com/capstan-dev/capstan/runtime/server"
)

// A server answers Discovery and each of its hooks over TLS, and nothing without TLS. Its author writes only the
// hooks.
func TestHooksAreServedOverHTTPS(t *testing.T) {
	ca := testtls.NewAuthority(t)
	certFile, keyFile := ca.Write(t, t.TempDir(), nil)
	s := start(t, server.TLS{CertFile: certFile, KeyFile: keyFile}, newServer(t,
		gate(func(context.Context, *createRequest, *createResponse) error { return nil }),
		server.Handle(
			hook.BeforeClusterDelete,
			"guard",
			func(context.Context, *runtimehooksv1.BeforeClusterDeleteRequest,
				*runtimehooksv1.BeforeClusterDeleteResponse) error {
				return nil
			},
		)))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.PEM)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer transport.CloseIdleConnections()
	calls := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	call := func(path, body string) (int, string) {
		t.Helper()
		answer, err := calls.Post(s.url+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	code, text := call(
		group+"discovery",
		`{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"DiscoveryRequest"}`,
	)
	var found runtimehooksv1.DiscoveryResponse
	if err := json.Unmarshal([]byte(text), &found); err != nil || code != http.StatusOK || len(found.Handlers) != 2 {
		t.Fatalf("Discovery is answered with %d %s, %v", code, text, err)
	}
	t.Attr("rule", "RX-02")
	for _, h := range found.Handlers {
		path := group + strings.ToLower(h.RequestHook.Hook) + "/" + h.Name
		if code, text := call(path, `{"cluster":{}}`); code != http.StatusOK ||
			!strings.Contains(text, `"kind":"`+h.RequestHook.Hook+`Response"`) {
			t.Errorf("%s is answered with %d %s", path, code, text)
		}
	}
	plain, err := calls.Post(
		strings.Replace(s.url, "https", "http", 1)+createPath,
		"application/json",
		strings.NewReader(`{"cluster":{}}`),
	)
	if err == nil {
		_ = plain.Body.Close()
		if plain.StatusCode == http.StatusOK {
			t.Error("a hook is answered without TLS")
		}
	}
	t.Attr("rule", "RX-01")
}
