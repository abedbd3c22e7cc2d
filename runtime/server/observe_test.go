package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/internal/testtls"
	"github.com/capstan-dev/capstan/runtime/server"
)

// Calls are counted by hook, version, handler and outcome (RS-18).
func TestMetrics(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	mode := ""
	s, err := server.New(server.Options{Metrics: registry},
		gate(func(context.Context, *createRequest, *createResponse) error {
			switch mode {
			case "wait":
				return server.Wait(7*time.Second, "no hosts")
			case "fail":
				return errors.New("no license")
			case "panic":
				panic("oops")
			}
			return nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	for _, mode = range []string{"", "", "wait", "fail", "panic"} {
		post(s, createPath, `{}`)
	}
	post(s, createPath, `{`)
	post(s, "/whatever/callers/send", `{}`) // never becomes a label
	want := `
		# HELP runtime_extension_calls_total Number of finished calls of handlers, by outcome.
		# TYPE runtime_extension_calls_total counter
		runtime_extension_calls_total{answer="failure",handler="gate",hook="BeforeClusterCreate",version="v1alpha1"} 2
		runtime_extension_calls_total{answer="panic",handler="gate",hook="BeforeClusterCreate",version="v1alpha1"} 1
		runtime_extension_calls_total{answer="success",handler="gate",hook="BeforeClusterCreate",version="v1alpha1"} 2
		runtime_extension_calls_total{answer="wait",handler="gate",hook="BeforeClusterCreate",version="v1alpha1"} 1
		# HELP runtime_extension_wait_seconds_total Seconds for which handlers asked their callers to wait.
		# TYPE runtime_extension_wait_seconds_total counter
		runtime_extension_wait_seconds_total{handler="gate",hook="BeforeClusterCreate",version="v1alpha1"} 7
	`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "runtime_extension_calls_total",
		"runtime_extension_wait_seconds_total"); err != nil {
		t.Error(err)
	}
	t.Attr("rule", "RS-18")
	if n, err := testutil.GatherAndCount(registry, "runtime_extension_call_duration_seconds"); err != nil || n != 1 {
		t.Errorf("%d histograms of durations, %v", n, err)
	}
	if _, err := server.New(server.Options{Metrics: registry}); err == nil {
		t.Error("the same metrics were registered twice")
	}
}

func TestHealth(t *testing.T) {
	var down error
	s, err := server.New(server.Options{Ready: func(context.Context) error { return down }})
	if err != nil {
		t.Fatal(err)
	}
	probe := func(path string) int {
		w := httptest.NewRecorder()
		s.Health().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code
	}
	if healthz, readyz := probe("/healthz"), probe("/readyz"); healthz != 200 || readyz != 200 {
		t.Errorf("at the start, the probes answer %d and %d", healthz, readyz)
	}
	down = errors.New("the database is away")
	if healthz, readyz := probe("/healthz"), probe("/readyz"); healthz != 200 || readyz != 503 {
		t.Errorf("while not ready, the probes answer %d and %d", healthz, readyz)
	}
	down = nil
	s.Drain()
	if healthz, readyz := probe("/healthz"), probe("/readyz"); healthz != 200 || readyz != 503 {
		t.Errorf("while draining, the probes answer %d and %d", healthz, readyz)
	}
	if w := post(s, group+"discovery", `{}`); w.Code != 200 {
		t.Errorf("a call while draining: %d", w.Code)
	}
}

// While a server lingers, it reports that it is not ready but still answers calls.
func TestServeDrainsFirst(t *testing.T) {
	ca := testtls.NewAuthority(t)
	certFile, keyFile := ca.Write(t, t.TempDir(), nil)
	extension := newServer(t)
	s := start(t, server.TLS{CertFile: certFile, KeyFile: keyFile, Linger: 2 * time.Second}, extension)
	ended := make(chan error, 1)
	go func() { ended <- s.end() }()
	eventually(t, "the server is not ready", func() bool {
		w := httptest.NewRecorder()
		extension.Health().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		return w.Code == http.StatusServiceUnavailable
	})
	if _, err := connect(s.url, ca); err != nil {
		select {
		case <-ended: // the machine was busy for the two seconds that the server lingers
		default:
			t.Errorf("a call while the server lingers: %v", err)
		}
		return
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// The document is served in addition to the hooks, only to GET requests (RS-09).
func TestOpenAPIIsServed(t *testing.T) {
	s, err := server.New(server.Options{Catalog: hook.ClusterAPI(), Prefix: "/extensions"},
		gate(func(context.Context, *createRequest, *createResponse) error { return nil }))
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/extensions"+server.OpenAPIPath, nil))
	var document struct {
		OpenAPI string         `json:"openapi"`
		Paths   map[string]any `json:"paths"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &document); err != nil || w.Code != 200 ||
		!strings.HasPrefix(document.OpenAPI, "3.0.") || len(document.Paths) != len(hook.ClusterAPI().All()) {
		t.Errorf("%d %s with %d paths, %v", w.Code, document.OpenAPI, len(document.Paths), err)
	}
	t.Attr("rule", "RS-09")
	if w := post(s, "/extensions"+server.OpenAPIPath, `{}`); w.Code != http.StatusNotFound {
		t.Errorf("POST: %d", w.Code)
	}
	if w := post(newServer(t), server.OpenAPIPath, `{}`); w.Code != http.StatusNotFound {
		t.Errorf("without a catalog: %d", w.Code)
	}
}

func TestServedHooksAreInTheCatalog(t *testing.T) {
	catalog, err := hook.NewCatalog(hook.Discovery, hook.UpdateMachine,
		hook.About(hook.UpdateMachine, hook.Facts{Singleton: true}))
	if err != nil {
		t.Fatal(err)
	}
	nothing := func(context.Context, *createRequest, *createResponse) error { return nil }
	if _, err := server.New(server.Options{Catalog: catalog}, gate(nothing)); err == nil ||
		!strings.Contains(err.Error(), "not in the catalog") {
		t.Errorf("an unknown hook: %v", err)
	}
	update := func(name string) server.Handler { return server.Handle(hook.UpdateMachine, name, updates) }
	if _, err := server.New(server.Options{Catalog: catalog}, update("a"), update("b")); err == nil ||
		!strings.Contains(err.Error(), "at most one handler") {
		t.Errorf("two handlers of a hook that allows one: %v", err)
	}
	t.Attr("rule", "UH-07")
	if _, err := server.New(server.Options{Catalog: catalog}, update("a")); err != nil {
		t.Error(err)
	}
}

func updates(context.Context, *runtimehooksv1.UpdateMachineRequest, *runtimehooksv1.UpdateMachineResponse) error {
	return nil
}

// Hooks can share a server with other handlers of a component (RX-10, RX-39, RX-08).
func TestHooksShareAServer(t *testing.T) {
	s, err := server.New(server.Options{Prefix: "/extensions"},
		gate(func(context.Context, *createRequest, *createResponse) error { return nil }),
		server.Handle(hook.UpdateMachine, "update", updates))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/extensions/", s)
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	for path, want := range map[string]int{
		"/extensions" + createPath: http.StatusOK, "/extensions" + group + "updatemachine/update": http.StatusOK,
		createPath: http.StatusNotFound, "/metrics": http.StatusTeapot,
	} {
		if w := post(mux, path, `{"cluster":{}}`); w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
	t.Attr("rule", "RX-08")
	t.Attr("rule", "RX-10")
	t.Attr("rule", "RX-39")
}
