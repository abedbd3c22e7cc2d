package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/runtime/client"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/record"
	"github.com/capstan-dev/capstan/runtime/server"
)

func TestCallAllExtensionsJoinsAnswers(t *testing.T) {
	b := newBench(t, client.Options{})
	b.extension("quota", nil,
		server.Handle(hook.BeforeClusterCreate, "b-wait-30", waits(30*time.Second, "quota is used up")),
		server.Handle(hook.BeforeClusterCreate, "a-go", says("name is fine")))
	b.extension("hosts", nil, server.Handle(hook.BeforeClusterCreate, "wait-10", waits(10*time.Second, "no hosts")))
	b.extension("silent", nil, server.Handle(hook.BeforeClusterCreate, "go", says("")))

	response, err := b.create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if response.Status != runtimehooksv1.ResponseStatusSuccess {
		t.Errorf("status is %q", response.Status)
	}
	if response.RetryAfterSeconds != 10 {
		t.Errorf("retryAfterSeconds is %d, the shortest that is not zero is 10 (CL-11)", response.RetryAfterSeconds)
	}
	t.Attr("rule", "CL-11")
	if want := "no hosts, name is fine, quota is used up"; response.Message != want {
		t.Errorf("message is %q, want %q (CL-19)", response.Message, want)
	}
	t.Attr("rule", "CL-19")
	var seen []string
	for _, call := range b.observed() {
		seen = append(seen, fmt.Sprintf("%s/%s %s %s %s/%s/%s %q", call.Extension, call.Handler, call.Answer, call.RetryAfter,
			call.Object.Kind, call.Object.Namespace, call.Object.Name, call.Message))
		if call.Hook != "hooks.runtime.cluster.x-k8s.io/v1alpha1/BeforeClusterCreate" || call.Duration <= 0 ||
			call.Time.IsZero() || call.Err != nil {
			t.Errorf("observed %+v", call)
		}
	}
	want := []string{
		`hosts/wait-10 Blocked 10s Cluster/default/blue "no hosts"`,
		`quota/a-go Success 0s Cluster/default/blue "name is fine"`,
		`quota/b-wait-30 Blocked 30s Cluster/default/blue "quota is used up"`,
		`silent/go Success 0s Cluster/default/blue ""`,
	}
	if !slices.Equal(seen, want) {
		t.Errorf("observed\n%s\nwant\n%s", strings.Join(seen, "\n"), strings.Join(want, "\n"))
	}
}

func TestCallAllExtensionsWithoutHandlersSucceeds(t *testing.T) {
	b := newBench(t, client.Options{})
	response, err := b.create(t.Context())
	if err != nil || response.Status != runtimehooksv1.ResponseStatusSuccess || response.RetryAfterSeconds != 0 {
		t.Errorf("got %+v, %v", response, err)
	}
}

func TestCallAllExtensionsNamesTheFailure(t *testing.T) {
	b := newBench(t, client.Options{})
	b.extension("one", nil, server.Handle(hook.BeforeClusterCreate, "gate", fails("disk is full")))
	b.extension("three", nil, server.Handle(hook.BeforeClusterCreate, "gate", fails("no license")))
	b.extension("two", nil, server.Handle(hook.BeforeClusterCreate, "gate", says("fine")))
	response, err := b.create(t.Context())
	want := `calling handlers of hook BeforeClusterCreate: handler "gate.one": it answered Failure: disk is full`
	if err == nil || err.Error() != want {
		t.Errorf("error is\n%v\nwant\n%s", err, want)
	}
	var call *client.CallError
	if !errors.As(err, &call) || call.Handler != "gate.one" || call.Hook != hook.BeforeClusterCreate.ID() {
		t.Errorf("the error does not name the call: %+v", call)
	}
	if response.Status != "" || response.Message != "" {
		t.Errorf("the response was changed in spite of the error: %+v", response)
	}
}

// The fourth defect seen in other clients: the order of handlers, and so the text of conditions, was random.
func TestDefectOrderIsAlwaysTheSame(t *testing.T) {
	b := newBench(t, client.Options{})
	for _, name := range []string{"e", "c", "a", "d", "b"} {
		b.extension(name, nil, server.Handle(hook.BeforeClusterCreate, "h", says(name)))
	}
	for range 40 {
		response, err := b.create(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if response.Message != "a, b, c, d, e" {
			t.Fatalf("message is %q", response.Message)
		}
		names, err := b.client.GetAllExtensions(t.Context(), runtimehooksv1.BeforeClusterCreate, testCluster())
		if err != nil || !slices.Equal(names, []string{"h.a", "h.b", "h.c", "h.d", "h.e"}) {
			t.Fatalf("handlers are %v, %v", names, err)
		}
	}
}

func TestHandlersAreCalledInParallelAndBounded(t *testing.T) {
	b := newBench(t, client.Options{Parallel: 3})
	var now, most atomic.Int32
	meet := make(chan struct{})
	slow := func(ctx context.Context, _ *runtimehooksv1.BeforeClusterCreateRequest,
		_ *runtimehooksv1.BeforeClusterCreateResponse) error {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
			if n == 3 {
				close(meet) // all three have arrived
			}
		}
		defer now.Add(-1)
		select {
		case <-meet:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for i := range 9 {
		b.extension(fmt.Sprintf("e%d", i), nil, server.Handle(hook.BeforeClusterCreate, "h", slow))
	}
	if _, err := b.create(t.Context()); err != nil {
		t.Fatal(err)
	}
	if most.Load() != 3 {
		t.Errorf("at most %d calls ran at the same time, want 3, which is the limit", most.Load())
	}
}

func TestConnectionsAreKept(t *testing.T) {
	b := newBench(t, client.Options{})
	var addresses sync.Map
	s := b.raw(runtimev1.FailurePolicyFail, 1, func(w http.ResponseWriter, r *http.Request) {
		addresses.Store(r.RemoteAddr, true)
		body(success)(w, r)
	})
	for i := range 20 {
		if _, err := b.gate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if i%5 == 0 { // a resync registers the same again
			b.register(b.config("ext", s.URL), "gate", runtimev1.FailurePolicyFail, 1)
		}
	}
	count := 0
	addresses.Range(func(any, any) bool { count++; return true })
	if count != 1 {
		t.Errorf("%d connections for calls one after the other", count)
	}
}

func TestARestartedExtensionCostsNoCall(t *testing.T) {
	b := newBench(t, client.Options{})
	s := b.raw(runtimev1.FailurePolicyFail, 5, body(success))
	for range 10 {
		if _, err := b.gate(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.CloseClientConnections() // the client may notice only while it sends
	}
}

func TestMisconfigurationIsNeverIgnored(t *testing.T) {
	b := newBench(t, client.Options{})
	b.raw(runtimev1.FailurePolicyIgnore, 1, body(success))
	cluster := testCluster()
	request, response := &runtimehooksv1.BeforeClusterCreateRequest{}, &runtimehooksv1.BeforeClusterCreateResponse{}
	call := func(runtimeHook any, object ctrlclient.Object, name string, request runtimehooksv1.RequestObject,
		response runtimehooksv1.ResponseObject) error {
		return b.client.CallExtension(t.Context(), runtimeHook, object, name, request, response)
	}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"a handler that does not exist": {call(runtimehooksv1.BeforeClusterCreate, cluster, "x.ext", request, response),
			`no extension has a handler "x.ext"`},
		"a handler of another hook": {
			call(runtimehooksv1.BeforeClusterDelete, cluster, "gate.ext", &runtimehooksv1.BeforeClusterDeleteRequest{},
				&runtimehooksv1.BeforeClusterDeleteResponse{}), "serves another hook",
		},
		"a hook that is not a function": {call("BeforeClusterCreate", cluster, "gate.ext", request, response),
			"can't be a string"},
		"a nil hook":          {call(nil, cluster, "gate.ext", request, response), "can't be a <nil>"},
		"an unknown function": {call(func() {}, cluster, "gate.ext", request, response), "not in the catalog"},
		"a request of another hook": {
			call(runtimehooksv1.BeforeClusterCreate, cluster, "gate.ext", &runtimehooksv1.BeforeClusterDeleteRequest{},
				response), "pass a BeforeClusterCreateRequest",
		},
		"a response of another hook": {
			call(runtimehooksv1.BeforeClusterCreate, cluster, "gate.ext", request,
				&runtimehooksv1.BeforeClusterDeleteResponse{}), "pass a BeforeClusterCreateResponse",
		},
		"a nil request": {call(runtimehooksv1.BeforeClusterCreate, cluster, "gate.ext", nil, response),
			"request is nil"},
		"a nil response": {call(runtimehooksv1.BeforeClusterCreate, cluster, "gate.ext", request, nil),
			"can't be a <nil>"},
		"a typed nil response": {
			call(runtimehooksv1.BeforeClusterCreate, cluster, "gate.ext", request,
				(*runtimehooksv1.BeforeClusterCreateResponse)(nil)), "pass a BeforeClusterCreateResponse",
		},
		"a nil object": {call(runtimehooksv1.BeforeClusterCreate, nil, "gate.ext", request, response),
			"object that the hook is called for is nil"},
		"discovery, which has no handler": {
			call(runtimehooksv1.Discovery, cluster, "gate.ext", request, &runtimehooksv1.DiscoveryResponse{}),
			"has no handlers to call",
		},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: error is %v, want one with %q", name, c.err, c.want)
		}
		t.Attr("rule", "CL-05")
	}
	if len(b.observed()) != 0 {
		t.Errorf("a handler was called: %+v", b.observed())
	}
}

func TestNotReadyBeforeWarmUp(t *testing.T) {
	c, err := client.New(client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if c.IsReady() {
		t.Error("ready before WarmUp")
	}
	if _, err := c.GetAllExtensions(t.Context(), runtimehooksv1.BeforeClusterCreate, testCluster()); err == nil {
		t.Error("handlers were listed before WarmUp")
	}
	t.Attr("rule", "CL-15")
	if err := c.Register(&runtimev1.ExtensionConfig{}); err == nil {
		t.Error("an extension was registered before WarmUp")
	}
	if err := c.WarmUp(nil); err == nil {
		t.Error("WarmUp without a list succeeded")
	}
	if err := c.WarmUp(&runtimev1.ExtensionConfigList{}); err != nil || !c.IsReady() {
		t.Errorf("WarmUp: %v, ready %t", err, c.IsReady())
	}
	if err := c.WarmUp(&runtimev1.ExtensionConfigList{}); err == nil {
		t.Error("WarmUp succeeded twice")
	}
}

func TestUnregisterNeedsTheNameOnly(t *testing.T) {
	b := newBench(t, client.Options{})
	b.raw(runtimev1.FailurePolicyFail, 1, body(success))
	if err := b.client.Unregister(&runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "ext"}}); err != nil {
		t.Fatal(err)
	}
	if names, err := b.client.GetAllExtensions(t.Context(), runtimehooksv1.BeforeClusterCreate,
		testCluster()); err != nil || len(names) != 0 {
		t.Errorf("after Unregister: %v, %v (RC-18)", names, err)
	}
	t.Attr("rule", "RC-18")
}

func TestAnyHookThatDoesNotRetryWorks(t *testing.T) {
	b := newBench(t, client.Options{})
	b.extension("ext", nil, server.Handle(hook.AfterControlPlaneInitialized, "h",
		func(context.Context, *runtimehooksv1.AfterControlPlaneInitializedRequest,
			*runtimehooksv1.AfterControlPlaneInitializedResponse) error {
			return nil
		}))
	response := &runtimehooksv1.AfterControlPlaneInitializedResponse{}
	err := b.client.CallAllExtensions(t.Context(), runtimehooksv1.AfterControlPlaneInitialized, testCluster(),
		&runtimehooksv1.AfterControlPlaneInitializedRequest{}, response)
	if err != nil || response.Status != runtimehooksv1.ResponseStatusSuccess {
		t.Errorf("got %+v, %v", response, err)
	}
}

func TestObserverIsToldOfFailures(t *testing.T) {
	b := newBench(t, client.Options{})
	s := b.ca.Serve(t, body("nonsense"), nil)
	b.register(b.config("a-ignore", s.URL), "h", runtimev1.FailurePolicyIgnore, 10)
	b.extension("b-fail", nil, server.Handle(hook.BeforeClusterCreate, "h", fails("no")))
	if _, err := b.create(t.Context()); err == nil {
		t.Fatal("a failure was ignored")
	}
	calls := b.observed()
	if len(calls) != 2 || calls[0].Answer != record.Ignored || calls[0].Err == nil ||
		calls[1].Answer != record.Failure || calls[1].Err == nil || calls[1].Message != "no" {
		t.Errorf("observed %+v", calls)
	}
}

// An administrator's timeout and failure policy override what the extension suggests.
func TestAdministratorOverrides(t *testing.T) {
	b := newBench(t, client.Options{})
	s := b.ca.Serve(t, http.HandlerFunc(hang), nil)
	config := b.config("ext", s.URL)
	config.Annotations = map[string]string{
		"timeout.runtime.capstan.dev/gate": "1s", "runtime.capstan.dev/failure-policy": "Ignore",
	}
	b.register(config, "gate", runtimev1.FailurePolicyFail, 30)
	start := time.Now()
	response, err := b.gate(t.Context())
	if err != nil || response.Status != runtimehooksv1.ResponseStatusSuccess {
		t.Errorf("got %+v, %v", response, err)
	}
	if took := time.Since(start); took < time.Second || took > 20*time.Second {
		t.Errorf("the call took %s", took)
	}
	if call := b.observed()[0]; call.Answer != record.Ignored ||
		!strings.Contains(call.Err.Error(), "did not answer within 1s") {
		t.Errorf("observed %+v", call)
	}
}
