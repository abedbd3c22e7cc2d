package server_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/server"
)

// Several handlers of one hook are listed, sorted, with defaults.
func TestDiscovery(t *testing.T) {
	nothing := func(context.Context, *createRequest, *createResponse) error { return nil }
	s := newServer(t,
		server.Handle(hook.BeforeClusterCreate, "b", nothing, server.Timeout(30*time.Second), server.IgnoreFailures()),
		server.Handle(hook.BeforeClusterCreate, "a", nothing))
	w := post(s, group+"discovery", `{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"DiscoveryRequest"}`)
	want := `{"kind":"DiscoveryResponse","apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","status":"Success","handlers":[` +
		`{"name":"a","requestHook":{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","hook":"BeforeClusterCreate"},"timeoutSeconds":10,"failurePolicy":"Fail"},` +
		`{"name":"b","requestHook":{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","hook":"BeforeClusterCreate"},"timeoutSeconds":30,"failurePolicy":"Ignore"}]}`
	if w.Code != 200 || w.Body.String() != want {
		t.Errorf("%d %s\nwant %s", w.Code, w.Body, want)
	}
	t.Attr("rule", "RX-02")
	var got runtimehooksv1.DiscoveryResponse
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Kind != "DiscoveryResponse" {
		t.Fatalf("the request is answered by %+v, %v", got, err)
	}
	t.Attr("rule", "RX-12")
	if got.Status != runtimehooksv1.ResponseStatusSuccess {
		t.Errorf("the status is %q", got.Status)
	}
	t.Attr("rule", "RX-13")
	if len(got.Handlers) != 2 {
		t.Fatalf("%d handlers are listed, want both of one hook", len(got.Handlers))
	}
	t.Attr("rule", "RX-15")
	t.Attr("rule", "RX-20")
	for i, want := range []struct {
		seconds int32
		policy  runtimehooksv1.FailurePolicy
	}{{10, runtimehooksv1.FailurePolicyFail}, {30, runtimehooksv1.FailurePolicyIgnore}} {
		h := got.Handlers[i]
		if h.RequestHook != (runtimehooksv1.GroupVersionHook{
			APIVersion: runtimehooksv1.GroupVersion.String(), Hook: "BeforeClusterCreate",
		}) {
			t.Errorf("handler %s is of %+v", h.Name, h.RequestHook)
		}
		t.Attr("rule", "RX-17")
		if h.TimeoutSeconds == nil || *h.TimeoutSeconds != want.seconds {
			t.Errorf("handler %s has the timeout %v, want %d seconds", h.Name, h.TimeoutSeconds, want.seconds)
		}
		t.Attr("rule", "RX-18")
		if h.FailurePolicy == nil || *h.FailurePolicy != want.policy {
			t.Errorf("handler %s has the policy %v, want %s", h.Name, h.FailurePolicy, want.policy)
		}
		t.Attr("rule", "RX-19")
	}
}

// The server used to accept what discovery rejects.
func TestDefectNewRejectsWhatDiscoveryWouldReject(t *testing.T) {
	nothing := func(context.Context, *createRequest, *createResponse) error { return nil }
	discovery := func(context.Context, *runtimehooksv1.DiscoveryRequest, *runtimehooksv1.DiscoveryResponse) error {
		return nil
	}
	one := func(name string, options ...server.Option) []server.Handler {
		return []server.Handler{server.Handle(hook.BeforeClusterCreate, name, nothing, options...)}
	}
	for name, c := range map[string]struct {
		handlers []server.Handler
		want     string
	}{
		"a duplicate name": {append(one("a"), server.Handle(hook.BeforeClusterDelete, "a",
			func(context.Context, *runtimehooksv1.BeforeClusterDeleteRequest,
				*runtimehooksv1.BeforeClusterDeleteResponse) error {
				return nil
			})),
			`handler "a": another one has the same name`},
		"a name that is not a DNS label":        {one("A_b"), "the name is not valid"},
		"no name":                               {one(""), "the name is not valid"},
		"a timeout of an hour":                  {one("a", server.Timeout(time.Hour)), "it must be 0 to 30s"},
		"a negative timeout":                    {one("a", server.Timeout(-time.Second)), "it must be 0 to 30s"},
		"a timeout with a fraction of a second": {one("a", server.Timeout(1500*time.Millisecond)), "whole seconds"},
		"no function": {[]server.Handler{server.Handle(hook.BeforeClusterCreate, "a", nil)},
			"the function is nil"},
		"a zero hook": {
			[]server.Handler{server.Handle(hook.Hook[createRequest, createResponse]{}, "a", nothing)}, "the hook has no name",
		},
		"a handler for Discovery": {[]server.Handler{server.Handle(hook.Discovery, "a", discovery)},
			"answers Discovery itself"},
		"more handlers than can be listed": {slices.Repeat(one("a"), 513),
			"there are 513 handlers, an ExtensionConfig can list 512"},
		"two mistakes, which are both reported": {append(one("A"), one("b", server.Timeout(time.Hour))...),
			"A\": the name is not valid"},
	} {
		if _, err := server.New(server.Options{}, c.handlers...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error is %v, want one with %q", name, err, c.want)
		}
		switch name {
		case "a duplicate name", "a name that is not a DNS label":
			t.Attr("rule", "RX-16")
		case "a timeout of an hour":
			t.Attr("rule", "RX-18")
		}
	}
	if _, err := server.New(server.Options{Prefix: "x"}); err == nil {
		t.Error("a prefix without a slash was accepted")
	}
	if _, err := server.New(server.Options{Parallel: -1}); err == nil {
		t.Error("a negative Parallel was accepted")
	}
}
