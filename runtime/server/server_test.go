package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	createRequest  = runtimehooksv1.BeforeClusterCreateRequest
	createResponse = runtimehooksv1.BeforeClusterCreateResponse
)

const (
	group      = "/hooks.runtime.cluster.x-k8s.io/v1alpha1/"
	createPath = group + "beforeclustercreate/gate"
)

func newServer(t testing.TB, handlers ...server.Handler) *server.Server {
	t.Helper()
	s, err := server.New(server.Options{}, handlers...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func gate(handle server.Func[createRequest, createResponse], options ...server.Option) server.Handler {
	return server.Handle(hook.BeforeClusterCreate, "gate", handle, options...)
}

func post(h http.Handler, path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
	return w
}

func TestAnswers(t *testing.T) {
	const kinds = `"kind":"BeforeClusterCreateResponse","apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1",`
	for name, c := range map[string]struct {
		handle server.Func[createRequest, createResponse]
		want   string
	}{
		"nil is Success": {
			func(context.Context, *createRequest, *createResponse) error { return nil },
			`{` + kinds + `"status":"Success","retryAfterSeconds":0}`,
		},
		"nil with a message": {
			func(_ context.Context, _ *createRequest, r *createResponse) error { r.Message = "fine"; return nil },
			`{` + kinds + `"status":"Success","message":"fine","retryAfterSeconds":0}`,
		},
		"Wait blocks": {
			func(context.Context, *createRequest, *createResponse) error {
				return server.Wait(5*time.Second, "no hosts")
			},
			`{` + kinds + `"status":"Success","message":"no hosts","retryAfterSeconds":5}`,
		},
		"Wait that is wrapped blocks": {
			func(context.Context, *createRequest, *createResponse) error {
				return fmt.Errorf("checking: %w", server.Wait(1500*time.Millisecond, "no hosts"))
			},
			`{` + kinds + `"status":"Success","message":"no hosts","retryAfterSeconds":2}`,
		},
		"Wait for no time still blocks": {
			func(context.Context, *createRequest, *createResponse) error { return server.Wait(0, "no hosts") },
			`{` + kinds + `"status":"Success","message":"no hosts","retryAfterSeconds":1}`,
		},
		"an error is Failure, and nothing else is sent": {
			func(_ context.Context, _ *createRequest, r *createResponse) error {
				r.Message, r.RetryAfterSeconds = "half", 7
				return errors.New("no license")
			},
			`{` + kinds + `"status":"Failure","message":"no license","retryAfterSeconds":0}`,
		},
		"an error without a text gets one": {
			func(context.Context, *createRequest, *createResponse) error { return errors.New(" ") },
			`{` + kinds +
				`"status":"Failure","message":"the handler \"gate\" failed without a reason; see the extension's log",` +
				`"retryAfterSeconds":0}`,
		},
		"a handler can't say Failure and return nil": {
			func(_ context.Context, _ *createRequest, r *createResponse) error {
				r.Status = runtimehooksv1.ResponseStatusFailure
				return nil
			},
			`{` + kinds + `"status":"Success","retryAfterSeconds":0}`,
		},
		"retryAfterSeconds without Wait is a mistake": {
			func(_ context.Context, _ *createRequest, r *createResponse) error {
				r.RetryAfterSeconds = 7
				return nil
			},
			`{` + kinds +
				`"status":"Failure","message":"the handler set retryAfterSeconds itself; it must return server.Wait","retryAfterSeconds":0}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := post(newServer(t, gate(c.handle)), createPath, `{"cluster":{}}`)
			if w.Code != http.StatusOK || w.Body.String() != c.want {
				t.Errorf("%d %s\nwant %s", w.Code, w.Body, c.want)
			}
			t.Attr("rule", "LH-02")
			switch name {
			case "nil is Success":
				t.Attr("rule", "RX-07")
			case "Wait blocks":
				t.Attr("rule", "RX-23")
			case "an error is Failure, and nothing else is sent":
				t.Attr("rule", "RX-44")
			case "an error without a text gets one":
				t.Attr("rule", "RX-14")
			}
			// The server used to set no Content-Type.
			if got := w.Header().Get("Content-Type"); got != "application/json" {
				t.Errorf("Content-Type is %q (RX-05)", got)
			}
			t.Attr("rule", "RX-05")
		})
	}
}

func TestHooksThatCannotBlockDoNot(t *testing.T) {
	s := newServer(t, server.Handle(hook.AfterControlPlaneInitialized, "gate",
		func(context.Context, *runtimehooksv1.AfterControlPlaneInitializedRequest,
			*runtimehooksv1.AfterControlPlaneInitializedResponse) error {
			return server.Wait(time.Second, "not yet")
		}))
	w := post(s, group+"aftercontrolplaneinitialized/gate", `{"cluster":{}}`)
	if want := `"status":"Failure","message":"the handler wants to wait (not yet), but hook AfterControlPlaneInitialized does not allow it"}`; !strings.HasSuffix(w.Body.String(), want) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	t.Attr("rule", "LH-03")
}

func TestRequestsThatAreWrong(t *testing.T) {
	s := newServer(t, gate(func(context.Context, *createRequest, *createResponse) error {
		t.Error("the handler was called")
		return nil
	}))
	for name, c := range map[string]struct {
		method, path, body string
		code               int
		want               string
	}{
		"GET":                  {"GET", createPath, ``, 405, "hooks are called with POST"},
		"an unknown path":      {"POST", "/nothing", `{}`, 404, "no handler at this path"},
		"an unknown handler":   {"POST", group + "beforeclustercreate/other", `{}`, 404, "no handler"},
		"a path in other case": {"POST", group + "BeforeClusterCreate/gate", `{}`, 404, "no handler"},
		"an empty body": {"POST", createPath, ``, 200,
			`"status":"Failure","message":"decoding a BeforeClusterCreateRequest: the body is empty"`},
		"broken JSON": {"POST", createPath, `{"cluster":`, 200,
			`"status":"Failure","message":"decoding a BeforeClusterCreateRequest: unexpected end`},
		"trailing bytes": {"POST", createPath, `{} x`, 200, `"status":"Failure"`},
		"another kind": {"POST", createPath, `{"kind":"BeforeClusterDeleteRequest"}`, 200,
			`the body is a \"BeforeClusterDeleteRequest\"`},
		"another apiVersion": {"POST", createPath, `{"apiVersion":"v1"}`, 200, `its apiVersion is \"v1\"`},
		"an invalid Cluster": {"POST", createPath, `{"cluster":{"apiVersion":"cluster.x-k8s.io/v1beta1","spec":1}}`, 200,
			`"status":"Failure"`},
		"21 MiB": {"POST", createPath, `{"a":"` + strings.Repeat("x", 21<<20) + `"}`, 413, "body too large"},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequest(c.method, c.path, strings.NewReader(c.body)))
			if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("%d %s, want %d with %s", w.Code, w.Body, c.code, c.want)
			}
			switch name {
			case "GET":
				t.Attr("rule", "RX-04")
			case "an unknown path", "an unknown handler":
				t.Attr("rule", "RX-06")
			case "another kind", "another apiVersion":
				t.Attr("rule", "RX-07")
			case "broken JSON":
				t.Attr("rule", "RX-44")
			case "21 MiB":
				t.Attr("rule", "RX-43")
			}
		})
	}
}

func TestBothVersionsOfClusterAreUnderstood(t *testing.T) {
	for _, version := range []string{"v1beta1", "v1beta2"} {
		var got *createRequest
		s := newServer(t,
			gate(func(_ context.Context, request *createRequest, _ *createResponse) error { got = request; return nil }))
		w := post(s, createPath, `{"cluster":{"apiVersion":"cluster.x-k8s.io/`+version+
			`","metadata":{"name":"blue"},"spec":{"topology":{"version":"v1.36.3","controlPlane":{"replicas":3}}},"status":{}}}`)
		if w.Code != 200 || got == nil || got.Cluster.Name != "blue" ||
			*got.Cluster.Spec.Topology.ControlPlane.Replicas != 3 || got.Cluster.APIVersion != "cluster.x-k8s.io/v1beta2" {
			t.Errorf("%s: %d %s, request %+v", version, w.Code, w.Body, got)
		}
	}
}

func TestPanicIsIsolated(t *testing.T) {
	var log bytes.Buffer
	s, err := server.New(server.Options{Log: slog.New(slog.NewTextHandler(&log, nil))},
		gate(func(_ context.Context, request *createRequest, _ *createResponse) error {
			if request.Cluster.Name == "bad" {
				panic("secret detail")
			}
			return nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	w := post(s, createPath, `{"cluster":{"metadata":{"name":"bad"}}}`)
	if w.Code != 500 || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if !strings.Contains(log.String(), "secret detail") {
		t.Errorf("the log does not mention the panic: %s", log.String())
	}
	if w := post(s, createPath, `{}`); w.Code != 200 {
		t.Errorf("after the panic: %d %s", w.Code, w.Body)
	}
	t.Attr("rule", "RX-22")
}

func TestTimeouts(t *testing.T) {
	for name, c := range map[string]struct {
		query   string
		options []server.Option
		want    time.Duration
	}{
		"the default timeout":       {"", nil, 9500 * time.Millisecond},
		"the handler's own timeout": {"", []server.Option{server.Timeout(2 * time.Second)}, 1800 * time.Millisecond},
		"the timeout of the caller": {"?timeout=1s", nil, 900 * time.Millisecond},
		"not more than the handler's own timeout": {"?timeout=1h", []server.Option{server.Timeout(time.Second)},
			900 * time.Millisecond},
		"an invalid timeout is ignored": {"?timeout=soon", []server.Option{server.Timeout(time.Second)},
			900 * time.Millisecond},
		"a negative timeout is ignored": {"?timeout=-1s", []server.Option{server.Timeout(time.Second)},
			900 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				s := newServer(t, gate(func(ctx context.Context, _ *createRequest, _ *createResponse) error {
					<-release // does not look at its context
					return ctx.Err()
				}, c.options...))
				start := time.Now()
				w := post(s, createPath+c.query, `{}`)
				if took := time.Since(start); w.Code != http.StatusGatewayTimeout || took != c.want {
					t.Errorf("%d after %s, want 504 after %s", w.Code, took, c.want)
				}
				close(release)
			})
		})
	}
}

func TestTurnsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var mu sync.Mutex
		running, most := 0, 0
		s, err := server.New(server.Options{Parallel: 2}, gate(func(context.Context, *createRequest, *createResponse) error {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			<-release
			mu.Lock()
			running--
			mu.Unlock()
			return nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		codes := make(chan int, 100)
		for range 100 {
			go func() { codes <- post(s, createPath, `{}`).Code }()
		}
		synctest.Wait()
		close(release)
		counts := map[int]int{}
		for range 100 {
			counts[<-codes]++
		}
		// 2 run, 16 wait, the others are rejected at once.
		if most != 2 || counts[200] != 18 || counts[503] != 82 {
			t.Errorf("at most %d at the same time, answers %v", most, counts)
		}
	})
}

func TestHundredCallsAtOnceAllSucceed(t *testing.T) {
	s := newServer(t, gate(func(context.Context, *createRequest, *createResponse) error { return nil }))
	var calls sync.WaitGroup
	for range 100 {
		calls.Go(func() {
			if w := post(s, createPath, `{}`); w.Code != 200 {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	calls.Wait()
}

func TestEachCallIsLogged(t *testing.T) {
	var out bytes.Buffer
	s, err := server.New(server.Options{Log: slog.New(slog.NewJSONHandler(&out, nil))},
		gate(func(context.Context, *createRequest, *createResponse) error {
			return server.Wait(5*time.Second, "no hosts")
		}))
	if err != nil {
		t.Fatal(err)
	}
	post(s, createPath, `{"cluster":{"metadata":{"name":"blue","namespace":"default"}}}`)
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	for key, want := range map[string]any{
		"hook": "BeforeClusterCreate", "handler": "gate", "cluster": "default/blue", "status": "Success",
		"message": "no hosts", "retryAfterSeconds": 5.0,
	} {
		if line[key] != want {
			t.Errorf("%s is %v, want %v", key, line[key], want)
		}
	}
}

// For any input, the server answers with JSON of the right kind, or with an HTTP error status.
func FuzzServer(f *testing.F) {
	s, err := server.New(server.Options{}, server.Handle(hook.BeforeClusterCreate, "gate",
		func(context.Context, *createRequest, *createResponse) error { return nil }))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(createPath, []byte(`{"cluster":{}}`))
	f.Add(group+"discovery", []byte(`{}`))
	f.Fuzz(func(t *testing.T, path string, body []byte) {
		request := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		request.URL.Path = path
		w := httptest.NewRecorder()
		s.ServeHTTP(w, request)
		if w.Code != http.StatusOK {
			return
		}
		var response struct{ Kind, Status string }
		data, err := io.ReadAll(w.Body)
		if err != nil || json.Unmarshal(data, &response) != nil || !strings.HasSuffix(response.Kind, "Response") ||
			response.Status != "Success" && response.Status != "Failure" {
			t.Fatalf("answered %s", data)
		}
	})
}
