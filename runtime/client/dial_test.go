package client_test

import (
	"context"
	"encoding/pem"
	"net"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/runtime/client"
	"github.com/capstan-dev/capstan/runtime/server"
)

// TestDial connects the client to a Service that no DNS resolves. The name in the server's certificate is still
// checked.
func TestDial(t *testing.T) {
	handlers, err := server.New(server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	extension := httptest.NewTLSServer(handlers) // its certificate is for example.com
	t.Cleanup(extension.Close)
	var mu sync.Mutex
	var dialed []string
	calls, err := client.New(client.Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		mu.Lock()
		dialed = append(dialed, address)
		mu.Unlock()
		return (&net.Dialer{}).DialContext(ctx, network, extension.Listener.Addr().String())
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(calls.Close)
	config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "ext"}}
	config.Spec.ClientConfig.CABundle = pem.EncodeToMemory(
		&pem.Block{Type: "CERTIFICATE", Bytes: extension.Certificate().Raw},
	)
	config.Spec.NamespaceSelector = &metav1.LabelSelector{}

	config.Spec.ClientConfig.URL = "https://example.com"
	if _, err := calls.Discover(t.Context(), config); err != nil {
		t.Errorf("a server with the right certificate was rejected: %v", err)
	}
	config.Spec.ClientConfig = runtimev1.ClientConfig{
		CABundle: config.Spec.ClientConfig.CABundle, Service: runtimev1.ServiceReference{Namespace: "ns", Name: "svc"},
	}
	if _, err := calls.Discover(t.Context(), config); err == nil {
		t.Error("a server with a certificate for another name was accepted")
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Contains(dialed, "example.com:443") || !slices.Contains(dialed, "svc.ns.svc:443") {
		t.Errorf("the dialed addresses are %q", dialed)
	}
}
