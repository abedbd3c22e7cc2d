package client_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/runtime/client"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/internal/testtls"
	"github.com/capstan-dev/capstan/runtime/record"
	"github.com/capstan-dev/capstan/runtime/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a management cluster as the client sees it, with real extensions behind real TLS.
type bench struct {
	t      testing.TB
	ca     *testtls.Authority
	client *client.Client

	mu    sync.Mutex
	calls []record.Call
}

func newBench(t testing.TB, options client.Options) *bench {
	t.Helper()
	b := &bench{t: t, ca: testtls.NewAuthority(t)}
	options.Observer = func(call record.Call) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.calls = append(b.calls, call)
	}
	c, err := client.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	b.client = c
	if err := c.WarmUp(&runtimev1.ExtensionConfigList{}); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) observed() []record.Call {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]record.Call(nil), b.calls...)
}

// config returns the ExtensionConfig of a server.
func (b *bench) config(name, url string) *runtimev1.ExtensionConfig {
	return &runtimev1.ExtensionConfig{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"},
		Spec: runtimev1.ExtensionConfigSpec{
			ClientConfig: runtimev1.ClientConfig{URL: url, CABundle: b.ca.PEM}, NamespaceSelector: &metav1.LabelSelector{},
		},
	}
}

// extension starts a server made with the SDK, and discovers and registers it.
func (b *bench) extension(name string, change func(*runtimev1.ExtensionConfig),
	handlers ...server.Handler) *httptest.Server {
	b.t.Helper()
	h, err := server.New(server.Options{}, handlers...)
	if err != nil {
		b.t.Fatal(err)
	}
	s := b.ca.Serve(b.t, h, nil)
	config := b.config(name, s.URL)
	if change != nil {
		change(config)
	}
	discovered, err := b.client.Discover(b.t.Context(), config)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.client.Register(discovered); err != nil {
		b.t.Fatal(err)
	}
	return s
}

// raw starts a server that answers every call in the same way, and registers one handler of it for
// BeforeClusterCreate.
func (b *bench) raw(policy runtimev1.FailurePolicy, timeoutSeconds int32, handler http.HandlerFunc) *httptest.Server {
	b.t.Helper()
	return b.rawServer(policy, timeoutSeconds, handler, nil)
}

func (b *bench) rawServer(policy runtimev1.FailurePolicy, timeoutSeconds int32, handler http.HandlerFunc,
	change func(*httptest.Server)) *httptest.Server {
	b.t.Helper()
	s := b.ca.Serve(b.t, handler, change)
	b.register(b.config("ext", s.URL), "gate", policy, timeoutSeconds)
	return s
}

func (b *bench) register(config *runtimev1.ExtensionConfig, handler string, policy runtimev1.FailurePolicy,
	timeoutSeconds int32) {
	b.t.Helper()
	config.Status.Handlers = append(config.Status.Handlers, runtimev1.ExtensionHandler{
		Name: handler + "." + config.Name,
		RequestHook: runtimev1.GroupVersionHook{
			APIVersion: hook.BeforeClusterCreate.ID().APIVersion(), Hook: "BeforeClusterCreate",
		},
		TimeoutSeconds: timeoutSeconds, FailurePolicy: policy,
	})
	if err := b.client.Register(config); err != nil {
		b.t.Fatal(err)
	}
}

func testCluster() *clusterv1.Cluster {
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue", UID: "u1"}}
}

// create calls all handlers of BeforeClusterCreate.
func (b *bench) create(ctx context.Context) (*runtimehooksv1.BeforeClusterCreateResponse, error) {
	cluster := testCluster()
	response := &runtimehooksv1.BeforeClusterCreateResponse{}
	err := b.client.CallAllExtensions(ctx, runtimehooksv1.BeforeClusterCreate, cluster,
		&runtimehooksv1.BeforeClusterCreateRequest{Cluster: *cluster}, response)
	return response, err
}

// gate calls the one handler of a raw server.
func (b *bench) gate(ctx context.Context) (*runtimehooksv1.BeforeClusterCreateResponse, error) {
	cluster := testCluster()
	response := &runtimehooksv1.BeforeClusterCreateResponse{}
	err := b.client.CallExtension(ctx, runtimehooksv1.BeforeClusterCreate, cluster, "gate.ext",
		&runtimehooksv1.BeforeClusterCreateRequest{Cluster: *cluster}, response)
	return response, err
}

type createFunc = server.Func[runtimehooksv1.BeforeClusterCreateRequest, runtimehooksv1.BeforeClusterCreateResponse]

// says returns a handler that answers Success with a message.
func says(message string) createFunc {
	return func(_ context.Context, _ *runtimehooksv1.BeforeClusterCreateRequest,
		response *runtimehooksv1.BeforeClusterCreateResponse) error {
		response.Message = message
		return nil
	}
}

// waits returns a handler that blocks.
func waits(after time.Duration, reason string) createFunc {
	return func(context.Context, *runtimehooksv1.BeforeClusterCreateRequest,
		*runtimehooksv1.BeforeClusterCreateResponse) error {
		return server.Wait(after, reason)
	}
}

// fails returns a handler that answers Failure.
func fails(message string) createFunc {
	return func(context.Context, *runtimehooksv1.BeforeClusterCreateRequest,
		*runtimehooksv1.BeforeClusterCreateResponse) error {
		return fmt.Errorf("%s", message)
	}
}

// body answers with these bytes.
func body(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.Copy(w, bytes.NewBufferString(text))
	}
}

const success = `{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"BeforeClusterCreateResponse","status":"Success","message":"go","retryAfterSeconds":0}`
