package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/runtime/client"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/server"
)

func TestSettingsOfTheRequestWin(t *testing.T) {
	b := newBench(t, client.Options{})
	var mu sync.Mutex
	got := map[string]map[string]string{}
	for _, name := range []string{"with", "without"} {
		b.extension(name, func(config *runtimev1.ExtensionConfig) {
			if name == "with" {
				config.Spec.Settings = map[string]string{"site": "config", "color": "blue"}
			}
		}, server.Handle(hook.BeforeClusterCreate, "h",
			func(_ context.Context, request *runtimehooksv1.BeforeClusterCreateRequest,
				_ *runtimehooksv1.BeforeClusterCreateResponse) error {
				mu.Lock()
				defer mu.Unlock()
				got[name] = request.Settings
				return nil
			}))
	}
	cluster := testCluster()
	request := &runtimehooksv1.BeforeClusterCreateRequest{Cluster: *cluster}
	request.Settings = map[string]string{"site": "request"}
	if err := b.client.CallAllExtensions(t.Context(), runtimehooksv1.BeforeClusterCreate, cluster, request,
		&runtimehooksv1.BeforeClusterCreateResponse{}); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got["with"]) != "map[color:blue site:request]" || fmt.Sprint(got["without"]) != "map[site:request]" {
		t.Errorf("extensions got settings %v (RC-21)", got)
	}
	t.Attr("rule", "RC-21")
	if len(request.Settings) != 1 || request.Kind != "" {
		t.Errorf("the caller's request was changed: %+v", request)
	}
}

// This covers the twelfth defect seen in other clients: calls carried no Content-Type.
func TestDefectRequestOnTheWire(t *testing.T) {
	b := newBench(t, client.Options{})
	type seen struct {
		method, path, query, contentType string
		body                             map[string]any
	}
	requests := make(chan seen, 1)
	b.raw(runtimev1.FailurePolicyFail, 7, func(w http.ResponseWriter, r *http.Request) {
		s := seen{method: r.Method, path: r.URL.Path, query: r.URL.RawQuery, contentType: r.Header.Get("Content-Type")}
		data, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(data, &s.body)
		requests <- s
		body(success)(w, r)
	})
	if _, err := b.gate(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := <-requests
	if got.method != "POST" || got.path != "/hooks.runtime.cluster.x-k8s.io/v1alpha1/beforeclustercreate/gate" ||
		got.query != "timeout=7s" {
		t.Errorf("called %s %s?%s (RX-04, RX-06)", got.method, got.path, got.query)
	}
	t.Attr("rule", "RX-04")
	t.Attr("rule", "RX-06")
	if got.contentType != "application/json" {
		t.Errorf("Content-Type is %q (RX-05)", got.contentType)
	}
	t.Attr("rule", "RX-05")
	if got.body["apiVersion"] != "hooks.runtime.cluster.x-k8s.io/v1alpha1" ||
		got.body["kind"] != "BeforeClusterCreateRequest" {
		t.Errorf("the request is a %v %v (LH-01)", got.body["apiVersion"], got.body["kind"])
	}
}

func TestARequestThatIsTooLargeIsNotSent(t *testing.T) {
	b := newBench(t, client.Options{})
	var asked atomic.Bool
	b.raw(runtimev1.FailurePolicyIgnore, 10, func(w http.ResponseWriter, r *http.Request) {
		asked.Store(true)
		body(success)(w, r)
	})
	cluster := testCluster()
	cluster.Annotations = map[string]string{"example.org/large": strings.Repeat("x", 20<<20)}
	err := b.client.CallAllExtensions(t.Context(), runtimehooksv1.BeforeClusterCreate, cluster,
		&runtimehooksv1.BeforeClusterCreateRequest{Cluster: *cluster}, &runtimehooksv1.BeforeClusterCreateResponse{})
	if err == nil || !strings.Contains(err.Error(), "20971520 are allowed") || asked.Load() {
		t.Errorf("error is %v, sent: %t", err, asked.Load())
	}
}

func TestOptionsThatCanNotBe(t *testing.T) {
	for name, c := range map[string]struct {
		options client.Options
		want    string
	}{
		"a MaxRetryAfter with half a second": {client.Options{MaxRetryAfter: 1500 * time.Millisecond},
			"MaxRetryAfter is 1.5s: it must be whole seconds"},
		"a Recheck below a second": {
			client.Options{Recheck: time.Millisecond}, "Recheck is 1ms: it must be whole seconds",
		},
		"a negative Deadline":     {client.Options{Deadline: -1}, "must not be negative"},
		"a negative Parallel":     {client.Options{Parallel: -1}, "must not be negative"},
		"a negative LongestPause": {client.Options{LongestPause: -1}, "must not be negative"},
	} {
		if _, err := client.New(c.options); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error is %v, want one with %q", name, err, c.want)
		}
	}
}
