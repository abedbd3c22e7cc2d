package client_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	published "sigs.k8s.io/cluster-api/exp/runtime/server"

	"github.com/capstan-dev/capstan/runtime/client"
)

// Existing extensions are built with the server that Cluster API publishes; its answers omit apiVersion and kind.
func TestExtensionsOnThePublishedServer(t *testing.T) {
	b := newBench(t, client.Options{})
	directory := t.TempDir()
	b.ca.Write(t, directory, nil)
	catalog := runtimecatalog.New()
	if err := runtimehooksv1.AddToCatalog(catalog); err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	s, err := published.New(published.Options{Catalog: catalog, Host: "127.0.0.1", Port: port, CertDir: directory})
	if err != nil {
		t.Fatal(err)
	}
	for name, handle := range map[string]func(*runtimehooksv1.BeforeClusterCreateResponse){
		"wait": func(r *runtimehooksv1.BeforeClusterCreateResponse) {
			r.Status, r.RetryAfterSeconds, r.Message = runtimehooksv1.ResponseStatusSuccess, 15, "not yet"
		},
		"go": func(r *runtimehooksv1.BeforeClusterCreateResponse) { r.Status = runtimehooksv1.ResponseStatusSuccess },
	} {
		err := s.AddExtensionHandler(published.ExtensionHandler{Hook: runtimehooksv1.BeforeClusterCreate, Name: name,
			HandlerFunc: func(_ context.Context, _ *runtimehooksv1.BeforeClusterCreateRequest,
				response *runtimehooksv1.BeforeClusterCreateResponse) {
				handle(response)
			}})
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	defer func() {
		cancel()
		b.client.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()

	config := b.config("published", fmt.Sprintf("https://127.0.0.1:%d", port))
	deadline, tick := time.After(20*time.Second), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for {
		discovered, err := b.client.Discover(t.Context(), config)
		if err == nil {
			if err := b.client.Register(discovered); err != nil {
				t.Fatal(err)
			}
			break
		}
		select {
		case err := <-ended:
			ended <- nil
			t.Fatalf("the published server ended: %v", err)
		case <-deadline:
			t.Fatal(err)
		case <-tick.C:
		}
	}
	response, err := b.create(t.Context())
	if err != nil || response.RetryAfterSeconds != 15 || response.Message != "not yet" {
		t.Errorf("got %+v, %v", response, err)
	}
}

// freePort returns a port that was free a moment ago: the published server can't choose one itself.
func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}
