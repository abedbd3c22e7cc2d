package client_test

import (
	"encoding/json"
	"net/http"
	"testing"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/runtime/client"
)

func TestRequestsOfLifecycleHooks(t *testing.T) {
	b := newBench(t, client.Options{})
	requests := make(chan map[string]json.RawMessage, 1)
	b.raw(runtimev1.FailurePolicyFail, 7, func(w http.ResponseWriter, r *http.Request) {
		request := map[string]json.RawMessage{}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			t.Error(err)
		}
		requests <- request
		body(success)(w, r)
	})
	cluster := testCluster()
	request := &runtimehooksv1.BeforeClusterCreateRequest{Cluster: *cluster}
	request.Settings = map[string]string{"site": "north"}
	err := b.client.CallAllExtensions(t.Context(), runtimehooksv1.BeforeClusterCreate, cluster, request,
		&runtimehooksv1.BeforeClusterCreateResponse{})
	if err != nil {
		t.Fatal(err)
	}
	got := <-requests
	for name, want := range map[string]string{
		"apiVersion": `"hooks.runtime.cluster.x-k8s.io/v1alpha1"`,
		"kind":       `"BeforeClusterCreateRequest"`,
		"settings":   `{"site":"north"}`,
	} {
		if string(got[name]) != want {
			t.Errorf("%s of the request is %s, want %s", name, got[name], want)
		}
	}
	var sent struct {
		Metadata struct{ Name, Namespace string }
	}
	if err := json.Unmarshal(got["cluster"], &sent); err != nil ||
		sent.Metadata.Name != cluster.Name || sent.Metadata.Namespace != cluster.Namespace {
		t.Errorf("the Cluster of the request is %s (%v)", got["cluster"], err)
	}
	t.Attr("rule", "LH-01")
}
