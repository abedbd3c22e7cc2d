package client_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/runtime/schema"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/runtime/client"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/record"
	"github.com/capstan-dev/capstan/runtime/server"
)

// told collects the extensions that are reported as stale.
type told struct {
	mu    sync.Mutex
	names []string
}

func (s *told) tell(extension string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names = append(s.names, extension)
}

func (s *told) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.names, " ")
}

// After some calls, a broken extension costs its callers nothing. Other extensions are unaffected, and the broken one
// is called again soon after it recovers.
func TestAnOutage(t *testing.T) {
	b := newBench(t, client.Options{LongestPause: time.Second})
	var stale told
	b.client.OnStale(stale.tell)
	var works atomic.Bool
	var asked atomic.Int32
	b.raw(runtimev1.FailurePolicyFail, 5, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if works.Load() {
			body(success)(w, r)
			return
		}
		status(500, "database is down")(w, r)
	})
	for range 5 {
		if _, err := b.gate(t.Context()); err == nil || errors.Is(err, client.ErrNotAsked) {
			t.Fatalf("before the circuit opens: %v", err)
		}
	}
	_, before := b.gate(t.Context())
	if !errors.Is(before, client.ErrNotAsked) || asked.Load() != 5 || b.client.Circuits()["ext"] != client.CircuitOpen {
		t.Fatalf("after five failures: %v, asked %d times, %v", before, asked.Load(), b.client.Circuits())
	}
	if want := `calling hook BeforeClusterCreate: handler "gate.ext": it answered with the HTTP status 500 instead of 200: "database is down"`; before.Error() != want {
		t.Errorf("the text has changed, and with it a condition:\n%v\n%s", before, want)
	}
	calls := b.observed()
	if last := calls[len(calls)-1]; !last.NotAsked || last.Answer != record.Failure {
		t.Errorf("observed %+v", last)
	}
	b.extension("other", nil, server.Handle(hook.BeforeClusterDelete, "h",
		func(context.Context, *runtimehooksv1.BeforeClusterDeleteRequest, *runtimehooksv1.BeforeClusterDeleteResponse) error {
			return nil
		}))
	if err := b.client.CallAllExtensions(t.Context(), runtimehooksv1.BeforeClusterDelete, testCluster(),
		&runtimehooksv1.BeforeClusterDeleteRequest{}, &runtimehooksv1.BeforeClusterDeleteResponse{}); err != nil {
		t.Errorf("another extension: %v", err)
	}

	works.Store(true)
	deadline := time.Now().Add(20 * time.Second)
	for {
		if _, err := b.gate(t.Context()); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the extension works again, but is not called")
		}
	}
	if asked.Load() != 6 || b.client.Circuits()["ext"] != client.CircuitClosed {
		t.Errorf("asked %d times, %v", asked.Load(), b.client.Circuits())
	}
	if stale.all() != "ext" {
		t.Errorf("told to discover %q, want ext: an extension that works again may have been redeployed", stale.all())
	}
}

// Under Ignore an outage costs nothing at all.
func TestAnOutageUnderIgnore(t *testing.T) {
	b := newBench(t, client.Options{})
	var asked atomic.Int32
	b.raw(runtimev1.FailurePolicyIgnore, 5, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		reset(w, r)
	})
	for range 20 {
		response, err := b.create(t.Context())
		if err != nil || response.Status != runtimehooksv1.ResponseStatusSuccess {
			t.Fatalf("got %+v, %v", response, err)
		}
	}
	if asked.Load() > 6 { // a pause may have ended
		t.Errorf("asked %d times", asked.Load())
	}
}

// An endpoint that flaps fails only calls that arrive while it is down.
func TestAnEndpointThatFlaps(t *testing.T) {
	b := newBench(t, client.Options{})
	var asked atomic.Int32
	b.raw(runtimev1.FailurePolicyFail, 10, func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1)%3 != 0 {
			reset(w, r)
			return
		}
		body(success)(w, r)
	})
	works := 0
	for range 30 {
		response, err := b.gate(t.Context())
		if err == nil && response.Message == "go" {
			works++
		} else if errors.Is(err, client.ErrNotAsked) {
			t.Fatalf("the extension was not called: %v", err)
		}
	}
	// A call that is reset on a kept connection is sent once more on a new one.
	if works < 10 || asked.Load() < 30 || asked.Load() > 60 {
		t.Errorf("%d of 30 calls worked, the extension was called %d times", works, asked.Load())
	}
}

// Answers are not an outage, whatever they say; nor is a caller that gives up.
func TestWhatIsNoOutage(t *testing.T) {
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		ctx     func(context.Context) (context.Context, context.CancelFunc)
	}{
		"Failure":   {body(`{"status":"Failure","message":"no license"}`), context.WithCancel},
		"no status": {body(`{}`), context.WithCancel},
		"404":       {status(404, "no such handler"), context.WithCancel},
		"a caller that gives up": {hang, func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 10*time.Millisecond)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, client.Options{})
			b.raw(runtimev1.FailurePolicyFail, 5, c.handler)
			for range 8 {
				ctx, cancel := c.ctx(t.Context())
				if _, err := b.gate(ctx); err == nil || errors.Is(err, client.ErrNotAsked) {
					t.Errorf("error is %v", err)
				}
				cancel()
			}
			if is := b.client.Circuits()["ext"]; is != client.CircuitClosed {
				t.Errorf("the circuit is %s", is)
			}
		})
	}
}

// A successful discovery shows that the extension works: it ends the pause.
func TestADiscoveryEndsAnOutage(t *testing.T) {
	b := newBench(t, client.Options{LongestPause: time.Hour})
	var works atomic.Bool
	s := b.raw(runtimev1.FailurePolicyFail, 5, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !works.Load():
			status(503, "starting")(w, r)
		case strings.HasSuffix(r.URL.Path, "/discovery"):
			discovery(`{"name":"gate",`+create+`}`)(w, r)
		default:
			body(success)(w, r)
		}
	})
	for range 12 {
		_, _ = b.gate(t.Context())
	}
	works.Store(true)
	if _, err := b.client.Discover(t.Context(), b.config("ext", s.URL)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.gate(t.Context()); err != nil {
		t.Errorf("after the discovery: %v", err)
	}
}

// An extension that was redeployed may have other handlers: its server answers 404 for the old ones.
func TestAHandlerThatIsGoneIsTold(t *testing.T) {
	b := newBench(t, client.Options{})
	var stale told
	b.client.OnStale(stale.tell)
	b.raw(runtimev1.FailurePolicyIgnore, 5, status(404, "there is no handler at this path"))
	response, err := b.create(t.Context())
	if err != nil || response.Status != runtimehooksv1.ResponseStatusSuccess || stale.all() != "ext" {
		t.Errorf("got %+v, %v, told %q", response, err, stale.all())
	}
	if err := b.observed()[0].Err; err == nil || !strings.Contains(err.Error(), "HTTP status 404") ||
		!strings.Contains(err.Error(), "its handlers will soon be discovered again") {
		t.Errorf("observed %v", err)
	}
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	b := newBench(t, client.Options{Metrics: registry, Catalog: deprecatedCatalog(t)})
	b.extension("good", nil, server.Handle(hook.BeforeClusterCreate, "wait", waits(7*time.Second, "later")))
	b.extension("old", nil, server.Handle(olderHook, "h",
		func(context.Context, *runtimehooksv1.BeforeClusterUpgradeRequest,
			*runtimehooksv1.BeforeClusterUpgradeResponse) error {
			return nil
		}))
	if _, err := b.create(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := b.client.CallAllExtensions(t.Context(), newestHook, testCluster(),
			&runtimehooksv1.BeforeClusterUpgradeRequest{},
			&runtimehooksv1.BeforeClusterUpgradeResponse{}); err != nil {
			t.Fatal(err)
		}
	}
	b.raw(runtimev1.FailurePolicyFail, 5, status(500, ""))
	for range 6 {
		_, _ = b.gate(t.Context())
	}
	for want, value := range map[string]float64{
		"runtime_hook_calls_total answer=Blocked asked=true extension=good group=hooks.runtime.cluster.x-k8s.io " +
			"handler=wait hook=BeforeClusterCreate version=v1alpha1": 1,
		"runtime_hook_blocked_seconds_total extension=good group=hooks.runtime.cluster.x-k8s.io handler=wait " +
			"hook=BeforeClusterCreate version=v1alpha1": 7,
		"runtime_hook_call_duration_seconds extension=good group=hooks.runtime.cluster.x-k8s.io handler=wait " +
			"hook=BeforeClusterCreate version=v1alpha1": 1,
		"runtime_hook_deprecated_calls_total extension=old group=hooks.example.org handler=h hook=BeforePowerOff " +
			"version=v1alpha1": 2,
		"runtime_hook_calls_total answer=Failure asked=true extension=ext group=hooks.runtime.cluster.x-k8s.io " +
			"handler=gate hook=BeforeClusterCreate version=v1alpha1": 5,
		"runtime_hook_calls_total answer=Failure asked=false extension=ext group=hooks.runtime.cluster.x-k8s.io " +
			"handler=gate hook=BeforeClusterCreate version=v1alpha1": 1,
		"runtime_hook_call_errors_total extension=ext group=hooks.runtime.cluster.x-k8s.io handler=gate " +
			"hook=BeforeClusterCreate version=v1alpha1": 6,
		"runtime_hook_circuit_state extension=ext state=Open":    1,
		"runtime_hook_circuit_state extension=ext state=Closed":  0,
		"runtime_hook_circuit_state extension=good state=Closed": 1,
	} {
		if got, ok := gather(t, registry)[want]; !ok || got != value {
			t.Errorf("%s is %v (there: %t), want %v", want, got, ok, value)
		}
	}
	if err := b.client.Unregister(b.config("ext", "")); err != nil {
		t.Fatal(err)
	}
	for name := range gather(t, registry) {
		if strings.Contains(name, "extension=ext ") {
			t.Errorf("after Unregister there still is %s", name)
		}
	}
	if _, err := client.New(client.Options{Metrics: registry}); err == nil {
		t.Error("two clients registered the same metrics")
	}
}

// gather returns the metrics by name and labels; for histograms, the number of values.
func gather(t *testing.T, from prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				name += " " + label.GetName() + "=" + label.GetValue()
			}
			values[name] = valueOf(metric)
		}
	}
	return values
}

func valueOf(metric *dto.Metric) float64 {
	if h := metric.GetHistogram(); h != nil {
		return float64(h.GetSampleCount())
	}
	return metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
}

var (
	newestHook = defineVersion("v1beta1")
	olderHook  = defineVersion("v1alpha1")
)

func defineVersion(version string) hook.Hook[runtimehooksv1.BeforeClusterUpgradeRequest,
	runtimehooksv1.BeforeClusterUpgradeResponse] {
	return hook.Define[runtimehooksv1.BeforeClusterUpgradeRequest, runtimehooksv1.BeforeClusterUpgradeResponse](
		schema.GroupVersion{Group: "hooks.example.org", Version: version}, "BeforePowerOff")
}

// deprecatedCatalog has the hooks of Cluster API, and one more with a deprecated older version.
func deprecatedCatalog(t *testing.T) *hook.Catalog {
	t.Helper()
	catalog, err := hook.NewCatalog(append(hook.ClusterAPIHooks(), newestHook,
		hook.Serves(newestHook, olderHook,
			func(n, o *runtimehooksv1.BeforeClusterUpgradeRequest) error { *o = *n; return nil },
			func(o, n *runtimehooksv1.BeforeClusterUpgradeResponse) error { *n = *o; return nil }),
		hook.About(olderHook, hook.Facts{Introduced: "v1.1", Deprecated: "v1.3", RemovedIn: "v1.5", ReplacedBy: "v1beta1"}),
	)...)
	if err != nil {
		t.Fatal(err)
	}
	return catalog
}
