package client_test

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/client"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/server"
)

// Callers work with the newest version of a hook; an extension on an older one is called in its own (CL-16, CL-17).
func TestExtensionsOnAnOlderVersionAreCalled(t *testing.T) {
	type (
		request  = runtimehooksv1.BeforeClusterUpgradeRequest
		response = runtimehooksv1.BeforeClusterUpgradeResponse
	)
	define := func(version string) hook.Hook[request, response] {
		return hook.Define[request, response](schema.GroupVersion{Group: "hooks.example.org", Version: version}, "BeforePowerOff")
	}
	newest, older := define("v2"), define("v1")
	catalog, err := hook.NewCatalog(newest, hook.Serves(newest, older,
		func(n, o *request) error {
			o.Settings, o.Cluster, o.FromKubernetesVersion = n.Settings, n.Cluster, n.FromKubernetesVersion+" as v1"
			return nil
		},
		func(o, n *response) error {
			n.CommonRetryResponse = o.CommonRetryResponse
			n.Message += " as v2"
			return nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, client.Options{Catalog: catalog})
	echo := func(_ context.Context, request *request, response *response) error {
		response.Message = request.FromKubernetesVersion
		return nil
	}
	b.extension("new", nil, server.Handle(newest, "h", echo))
	b.extension("old", nil, server.Handle(older, "h", echo))
	got := &response{}
	err = b.client.CallAllExtensions(t.Context(), newest, testCluster(), &request{FromKubernetesVersion: "from"}, got)
	if err != nil || got.Message != "from, from as v1 as v2" {
		t.Errorf("got %+v, %v", got, err)
	}
	if calls := b.observed(); calls[1].Hook != "hooks.example.org/v1/BeforePowerOff" {
		t.Errorf("the record says %s was called", calls[1].Hook)
	}
}
