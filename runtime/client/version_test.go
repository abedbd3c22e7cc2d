package client_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/runtime/client"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/server"
)

// Callers work with the newest version of a hook; an extension on an older version is called in that version (CL-16,
// CL-17).
func TestExtensionsOnAnOlderVersionAreCalled(t *testing.T) {
	type (
		request  = runtimehooksv1.BeforeClusterUpgradeRequest
		response = runtimehooksv1.BeforeClusterUpgradeResponse
	)
	define := func(version string) hook.Hook[request, response] {
		return hook.Define[request, response](schema.GroupVersion{Group: "hooks.example.org", Version: version},
			"BeforePowerOff")
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
	t.Attr("rule", "CL-16")
	if calls := b.observed(); calls[1].Hook != "hooks.example.org/v1/BeforePowerOff" {
		t.Errorf("the record says %s was called", calls[1].Hook)
	}
}

// The second version of a hook adds a reason to its request and a window to its response.
type (
	powerRequest struct {
		metav1.TypeMeta              `json:",inline"`
		runtimehooksv1.CommonRequest `json:",inline"`
		Host                         string `json:"host"`
		Reason                       string `json:"reason,omitempty"`
	}
	powerResponse struct {
		metav1.TypeMeta                    `json:",inline"`
		runtimehooksv1.CommonRetryResponse `json:",inline"`
		Window                             *string `json:"window,omitempty"`
	}
	powerRequestV1 struct {
		metav1.TypeMeta              `json:",inline"`
		runtimehooksv1.CommonRequest `json:",inline"`
		Name                         string `json:"name"`
	}
	powerResponseV1 struct {
		metav1.TypeMeta                    `json:",inline"`
		runtimehooksv1.CommonRetryResponse `json:",inline"`
	}
)

func (r *powerRequest) DeepCopyObject() runtime.Object    { clone := *r; return &clone }
func (r *powerResponse) DeepCopyObject() runtime.Object   { clone := *r; return &clone }
func (r *powerRequestV1) DeepCopyObject() runtime.Object  { clone := *r; return &clone }
func (r *powerResponseV1) DeepCopyObject() runtime.Object { clone := *r; return &clone }

// powerCatalog has both versions.
func powerCatalog(t *testing.T) (*hook.Catalog, hook.Hook[powerRequest, powerResponse]) {
	t.Helper()
	newest := hook.Define[powerRequest, powerResponse](
		schema.GroupVersion{Group: "hooks.example.org", Version: "v2"}, "BeforePowerOff")
	older := hook.Define[powerRequestV1, powerResponseV1](
		schema.GroupVersion{Group: "hooks.example.org", Version: "v1"}, "BeforePowerOff")
	catalog, err := hook.NewCatalog(newest, hook.Serves(newest, older,
		func(n *powerRequest, o *powerRequestV1) error { o.Settings, o.Name = n.Settings, n.Host; return nil },
		func(o *powerResponseV1, n *powerResponse) error {
			n.CommonRetryResponse = o.CommonRetryResponse
			return nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	return catalog, newest
}

// An extension on the old version gets the old request, without fields that it does not know, and may answer with the
// old response. Its caller gets the new response, in which the new field is empty.
func TestAnExtensionOnTheOldTypes(t *testing.T) {
	catalog, newest := powerCatalog(t)
	b := newBench(t, client.Options{Catalog: catalog})
	bodies := make(chan []byte, 1)
	s := b.ca.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		bodies <- data
		_, _ = io.WriteString(w, `{"apiVersion":"hooks.example.org/v1","kind":"BeforePowerOffResponse","status":"Success",`+
			`"message":"later","retryAfterSeconds":7,"window":"a field that version 1 does not have"}`)
	}), nil)
	config := b.config("old", s.URL)
	config.Spec.Settings = map[string]string{"site": "a"}
	config.Status.Handlers = []runtimev1.ExtensionHandler{{
		Name: "h.old", RequestHook: runtimev1.GroupVersionHook{APIVersion: "hooks.example.org/v1", Hook: "BeforePowerOff"},
		TimeoutSeconds: 10, FailurePolicy: runtimev1.FailurePolicyFail,
	}}
	if err := b.client.Register(config); err != nil {
		t.Fatal(err)
	}
	got := &powerResponse{}
	if err := b.client.CallAllExtensions(t.Context(), newest, testCluster(), &powerRequest{Host: "h1", Reason: "heat"},
		got); err != nil {
		t.Fatal(err)
	}
	body := <-bodies
	var fields map[string]any
	if err := json.Unmarshal(body, &fields); err != nil {
		t.Fatal(err)
	}
	_, reason := fields["reason"]
	_, host := fields["host"]
	if fields["apiVersion"] != "hooks.example.org/v1" || fields["kind"] != "BeforePowerOffRequest" {
		t.Errorf("the extension got a %v %v", fields["apiVersion"], fields["kind"])
	}
	t.Attr("rule", "CL-17")
	if fields["name"] != "h1" || reason || host {
		t.Errorf("the extension got %s", body)
	}
	t.Attr("rule", "RS-03")
	if got.Message != "later" || got.RetryAfterSeconds != 7 || got.Window != nil {
		t.Errorf("the caller got %+v", got)
	}
	t.Attr("rule", "RS-04")
	if d, err := catalog.Lookup(newest); err != nil || d.ID.Version != "v2" || !catalog.IsNewest(d.ID) {
		t.Errorf("callers work with %+v, %v", d, err)
	}
	t.Attr("rule", "RS-17")
	if versions := catalog.Versions(newest.ID().Family()); len(versions) != 2 {
		t.Errorf("these versions are served at the same time: %v", versions)
	}
	t.Attr("rule", "RS-08")
}
