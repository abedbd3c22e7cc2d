package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/internal/post"
	"github.com/capstan-dev/capstan/runtime/internal/testtls"
	"github.com/capstan-dev/capstan/runtime/registry"
)

// newProxy starts a proxy that tunnels connections and counts them.
func newProxy(t *testing.T) (*url.URL, *atomic.Int32) {
	t.Helper()
	count := &atomic.Int32{}
	var tunnels sync.WaitGroup
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			http.Error(w, "only CONNECT", http.StatusMethodNotAllowed)
			return
		}
		to, err := net.Dial("tcp", r.Host)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		count.Add(1)
		w.WriteHeader(http.StatusOK)
		from, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			_ = to.Close()
			return
		}
		tunnels.Go(func() {
			_, _ = io.Copy(to, buffered)
			_ = to.Close()
		})
		tunnels.Go(func() {
			_, _ = io.Copy(from, to)
			_ = from.Close()
		})
	}))
	t.Cleanup(func() {
		s.Close()
		tunnels.Wait()
	})
	proxy, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return proxy, count
}

// If the environment configures a proxy, calls go through it, with the same checks.
func TestCallsThroughAProxy(t *testing.T) {
	ca := testtls.NewAuthority(t)
	release := make(chan struct{})
	s := ca.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.Header.Get("Extra") != "more" || r.URL.RawQuery != "timeout=1s" ||
			!strings.HasPrefix(r.URL.Path, "/pre/hooks.runtime"):
			http.Error(w, "bad request", http.StatusBadRequest)
		case bytes.Equal(body, []byte("hang")):
			select {
			case <-r.Context().Done():
			case <-release:
			}
		case bytes.Equal(body, []byte("huge")):
			_, _ = w.Write(bytes.Repeat([]byte(" "), 21<<20))
		case bytes.Equal(body, []byte("redirect")):
			http.Redirect(w, r, "https://127.0.0.1:1/", http.StatusFound)
		default:
			_, _ = io.WriteString(w, `{"status":"Success","message":"go"}`)
		}
	}), nil)
	defer close(release)
	proxy, tunnels := newProxy(t)
	e, err := newEndpoint(runtimev1.ClientConfig{URL: s.URL + "/pre", CABundle: ca.PEM}, transportOptions{
		idle: 4, longest: time.Second, proxy: func(*http.Request) (*url.URL, error) { return proxy, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.poster.Retire()
	defer e.poster.CloseIdle()
	exchange := func(ctx context.Context, call *post.Call, body string, timeout time.Duration) (string, error) {
		response := &runtimehooksv1.BeforeClusterCreateResponse{}
		err := e.exchange(ctx, call, exchange{
			served: hook.BeforeClusterCreate.Descriptor(),
			target: registry.Target(hook.BeforeClusterCreate.ID(), "gate", time.Second), timeout: timeout,
			start: time.Now(), header: map[string]string{"Extra": "more"}, body: []byte(body),
		}, response)
		return response.Message, err
	}
	const long = 20 * time.Second
	for range 3 {
		if message, err := exchange(t.Context(), &post.Call{}, "{}", long); err != nil || message != "go" {
			t.Fatalf("got %q, %v", message, err)
		}
	}
	if tunnels.Load() != 1 {
		t.Errorf("%d tunnels for calls one after the other", tunnels.Load())
	}
	for body, want := range map[string]string{"redirect": "HTTP status 302", "huge": "body too large"} {
		if _, err := exchange(t.Context(), &post.Call{}, body, long); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", body, err)
		}
	}
	if _, err := exchange(t.Context(), &post.Call{}, "hang", 100*time.Millisecond); err == nil ||
		!strings.Contains(err.Error(), "did not answer within 100ms") {
		t.Errorf("a call past its timeout: %v", err)
	}
	ended := &post.Call{}
	ended.End()
	if _, err := exchange(t.Context(), ended, "{}", long); !errors.Is(err, post.ErrEnded) {
		t.Errorf("a call that was ended: %v", err)
	}
}

func TestAProxyThatCanNotBeRead(t *testing.T) {
	_, err := newEndpoint(runtimev1.ClientConfig{URL: "https://127.0.0.1"}, transportOptions{
		idle: 1, proxy: func(*http.Request) (*url.URL, error) { return nil, os.ErrInvalid },
	})
	if !errors.Is(err, os.ErrInvalid) || !strings.Contains(err.Error(), "finding the proxy for 127.0.0.1") {
		t.Errorf("error is %v", err)
	}
}

// Whatever an extension says about its handlers, the result fits into the status of an ExtensionConfig.
func FuzzReadDiscovery(f *testing.F) {
	f.Add("gate", "hooks.runtime.cluster.x-k8s.io/v1alpha1", "BeforeClusterCreate", int32(10), "Fail")
	f.Add("Gate.", "a/b/c", "", int32(-1), "Retry")
	f.Add("future", "hooks.example.org/v9", "Later", int32(31), "Ignore")
	f.Fuzz(func(t *testing.T, name, apiVersion, hookName string, seconds int32, policy string) {
		p := runtimehooksv1.FailurePolicy(policy)
		found := []runtimehooksv1.ExtensionHandler{
			{Name: name, RequestHook: runtimehooksv1.GroupVersionHook{APIVersion: apiVersion, Hook: hookName},
				TimeoutSeconds: &seconds, FailurePolicy: &p},
			{Name: name, RequestHook: runtimehooksv1.GroupVersionHook{APIVersion: apiVersion, Hook: hookName}},
		}
		for count := range 3 {
			handlers, unknown, err := readDiscovery(hook.ClusterAPI(), "ext", found[:count])
			if count == 2 && err == nil {
				t.Fatalf("two handlers have the name %q", name)
			}
			if err != nil {
				continue
			}
			if len(handlers)+len(unknown) != count {
				t.Fatalf("%d handlers of %d", len(handlers)+len(unknown), count)
			}
			for _, h := range handlers {
				if h.TimeoutSeconds < 1 || h.TimeoutSeconds > 30 || h.FailurePolicy != "Fail" && h.FailurePolicy != "Ignore" ||
					len(h.Name) > 512 || !strings.HasSuffix(h.Name, ".ext") {
					t.Fatalf("handler is %+v", h)
				}
			}
		}
	})
}
