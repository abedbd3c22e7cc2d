package server_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/runtime/hook"
	peerclient "github.com/capstan-dev/capstan/runtime/internal/peer/client"
	peerregistry "github.com/capstan-dev/capstan/runtime/internal/peer/registry"
	"github.com/capstan-dev/capstan/runtime/internal/testtls"
	"github.com/capstan-dev/capstan/runtime/sample"
	"github.com/capstan-dev/capstan/runtime/server"
)

// cluster is what the published client asks for schemes.
type cluster struct {
	ctrlclient.Client
	scheme *runtime.Scheme
}

func (c cluster) Scheme() *runtime.Scheme { return c.scheme }

// Extensions built with this server work with the client that Cluster API's own reconcilers use: discovery, all kinds
// of hooks, and all kinds of answers (RX-03, RX-07, RX-11). Run it with: go run ./hack/peer ./runtime/server -run
// PublishedClient
func TestPublishedClient(t *testing.T) {
	scheme, catalog := runtime.NewScheme(), runtimecatalog.New()
	if err := errors.Join(clusterv1.AddToScheme(scheme), runtimehooksv1.AddToCatalog(catalog)); err != nil {
		t.Fatal(err)
	}
	calls, _, err := peerclient.New(t.Context(), peerclient.Options{Catalog: catalog, Registry: peerregistry.New(), Client: cluster{scheme: scheme}})
	if err != nil {
		t.Fatal(err)
	}
	if err := calls.WarmUp(&runtimev1.ExtensionConfigList{}); err != nil {
		t.Fatal(err)
	}
	ca := testtls.NewAuthority(t)
	s := ca.Serve(t, newServer(t,
		server.HandleSettings(hook.BeforeClusterCreate, "create", func(_ context.Context, s struct {
			Colour string `setting:"colour,required"`
		}, request *createRequest, response *createResponse) error {
			if request.Cluster.Name == "" {
				return errors.New("there is no Cluster")
			}
			return server.Wait(1500*time.Millisecond, "waits in "+s.Colour)
		}),
		server.Handle(hook.BeforeClusterDelete, "delete", func(context.Context, *runtimehooksv1.BeforeClusterDeleteRequest, *runtimehooksv1.BeforeClusterDeleteResponse) error {
			return errors.New("no license")
		}),
		server.Handle(hook.BeforeClusterUpgrade, "panics", func(context.Context, *runtimehooksv1.BeforeClusterUpgradeRequest, *runtimehooksv1.BeforeClusterUpgradeResponse) error {
			panic("oops")
		}, server.IgnoreFailures()),
		server.Handle(hook.GeneratePatches, "patches", func(_ context.Context, request *runtimehooksv1.GeneratePatchesRequest, response *runtimehooksv1.GeneratePatchesResponse) error {
			response.Items = []runtimehooksv1.GeneratePatchesResponseItem{{UID: request.Items[0].UID, PatchType: runtimehooksv1.JSONMergePatchType, Patch: []byte(`{}`)}}
			return nil
		}),
		server.Handle(hook.UpdateMachine, "update", updates),
	), nil)
	config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "ours"}}
	config.Spec.ClientConfig = runtimev1.ClientConfig{URL: s.URL, CABundle: ca.PEM}
	config.Spec.NamespaceSelector = &metav1.LabelSelector{}
	config.Spec.Settings = map[string]string{"colour": "blue"}
	discovered, err := calls.Discover(t.Context(), config)
	if err != nil || len(discovered.Status.Handlers) != 5 {
		t.Fatalf("discovery: %+v, %v", discovered, err)
	}
	if err := calls.Register(discovered); err != nil {
		t.Fatal(err)
	}
	object := sample.Cluster()

	created := &createResponse{}
	if err := calls.CallAllExtensions(t.Context(), runtimehooksv1.BeforeClusterCreate, object, &createRequest{Cluster: *object}, created); err != nil ||
		created.RetryAfterSeconds != 2 || created.Message != "waits in blue" {
		t.Errorf("a wait: %+v, %v", created.CommonRetryResponse, err)
	}
	err = calls.CallAllExtensions(t.Context(), runtimehooksv1.BeforeClusterDelete, object, &runtimehooksv1.BeforeClusterDeleteRequest{Cluster: *object}, &runtimehooksv1.BeforeClusterDeleteResponse{})
	if err == nil || !strings.Contains(err.Error(), "no license") {
		t.Errorf("a failure: %v", err)
	}
	upgraded := &runtimehooksv1.BeforeClusterUpgradeResponse{}
	if err := calls.CallAllExtensions(t.Context(), runtimehooksv1.BeforeClusterUpgrade, object, &runtimehooksv1.BeforeClusterUpgradeRequest{Cluster: *object}, upgraded); err != nil ||
		upgraded.Status != runtimehooksv1.ResponseStatusSuccess {
		t.Errorf("a panic that its policy ignores: %+v, %v", upgraded.CommonRetryResponse, err)
	}
	request, err := sample.Request(hook.GeneratePatches.Descriptor(), object)
	if err != nil {
		t.Fatal(err)
	}
	patched := &runtimehooksv1.GeneratePatchesResponse{}
	if err := calls.CallExtension(t.Context(), runtimehooksv1.GeneratePatches, object, "patches.ours", request.(*runtimehooksv1.GeneratePatchesRequest), patched); err != nil ||
		len(patched.Items) != 1 || patched.Items[0].UID != "1" {
		t.Errorf("patches: %+v, %v", patched.Items, err)
	}
	updated := &runtimehooksv1.UpdateMachineResponse{}
	if err := calls.CallAllExtensions(t.Context(), runtimehooksv1.UpdateMachine, object, &runtimehooksv1.UpdateMachineRequest{}, updated); err != nil ||
		updated.Status != runtimehooksv1.ResponseStatusSuccess {
		t.Errorf("an update in place: %+v, %v", updated.CommonRetryResponse, err)
	}
}
