package readyourwrites

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// informer is a cache with contents set by the test.
type informer struct {
	toolscache.SharedIndexInformer
	store  toolscache.Store
	synced atomic.Bool
	asked  atomic.Int64
}

func (i *informer) HasSynced() bool            { i.asked.Add(1); return i.synced.Load() }
func (i *informer) IsStopped() bool            { return false }
func (i *informer) GetStore() toolscache.Store { return i.store }

func newInformer() *informer {
	i := &informer{store: toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)}
	i.synced.Store(true)
	return i
}

// see makes the cache see a version of a machine.
func (i *informer) see(t *testing.T, name, uid, version string) {
	t.Helper()
	if err := i.store.Add(machine(name, uid, version)); err != nil {
		t.Fatal(err)
	}
}

func machine(name, uid, version string) *clusterv1.Machine {
	return &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(uid), ResourceVersion: version},
	}
}

// guarded returns a client whose writes wait for cache, and the guard.
func guarded(t *testing.T, cache *informer, limit time.Duration) (*http.Client, *Guard) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	g := New(scheme, limit)
	g.Informers(func(toolscache.ListerWatcher, runtime.Object, time.Duration,
		toolscache.Indexers) toolscache.SharedIndexInformer {
		return cache
	}, schema.GroupResource{Resource: "secrets"})(nil, &clusterv1.Machine{}, 0, nil)
	return &http.Client{Transport: g.Wrap(http.DefaultTransport)}, g
}

// answering returns the same response to every request.
func answering(t *testing.T, status int, media, body string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", media)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

const (
	machines = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machines"
	written  = `{"kind":"Machine","metadata":{"name":"a","resourceVersion":"100"},"spec":{}}`
	removed  = `{"kind":"Status","status":"Success","details":{"name":"a","uid":"u1"}}`
)

func TestWaits(t *testing.T) {
	cases := map[string]struct {
		method, path, media, body string
		status                    int
		have                      string // the version of machine "a" in the cache
		waits                     bool
	}{
		"a creation that the cache has not seen": {http.MethodPost, machines, "", written, 201, "99", true},
		"a creation that the cache has seen":     {http.MethodPost, machines, "", written, 201, "100", false},
		"an update":                              {http.MethodPut, machines + "/a", "", written, 200, "99", true},
		"a patch of the status": {http.MethodPatch, machines + "/a/status", "", written, 200,
			"99", true},
		"a cache with a newer version that has more digits": {http.MethodPut, machines + "/a", "", written, 200,
			"1000", false},
		"a deletion that leaves the object to finalizers": {http.MethodDelete, machines + "/a", "", written, 200,
			"99", true},
		"a deletion that removes the object": {http.MethodDelete, machines + "/a", "", removed, 200,
			"200", true},
		"a deletion of an older object with the same name": {http.MethodDelete, machines + "/a", "",
			strings.ReplaceAll(removed, "u1", "u0"), 200, "200", false},
		"a deletion of an object that the cache never had": {http.MethodDelete, machines + "/b", "", removed, 200,
			"200", false},
		"a read":              {http.MethodGet, machines + "/a", "", written, 200, "99", false},
		"a write that failed": {http.MethodPut, machines + "/a", "", written, 409, "99", false},
		"a dry run":           {http.MethodPost, machines + "?dryRun=All", "", written, 201, "99", false},
		"a type that is not cached": {http.MethodPost, "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machinesets", "",
			written, 201, "99", false},
		"a deletion of a collection": {http.MethodDelete, machines, "", written, 200, "99", false},
		"an answer that is not JSON": {http.MethodPost, machines, "application/vnd.kubernetes.protobuf", written, 201,
			"99", false},
		"an answer without a version":   {http.MethodPost, machines, "", "{}", 201, "99", false},
		"an answer that is broken JSON": {http.MethodPost, machines, "", "{", 201, "99", false},
		"a version that is not a number": {http.MethodPost, machines, "", strings.ReplaceAll(written, "100", "x"), 201,
			"99", false},
		"a path that only ends like a collection": {
			http.MethodPost, "/healthz/machines", "", written, 201, "99", false,
		},
		"an older version of the same type": {http.MethodPost, strings.ReplaceAll(machines, "v1beta2", "v1beta1"), "",
			written, 201, "99", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cache := newInformer()
			cache.see(t, "a", "u1", c.have)
			media := c.media
			if media == "" {
				media = "application/json; charset=utf-8"
			}
			caller, guard := guarded(t, cache, 5*time.Millisecond)
			req, err := http.NewRequestWithContext(t.Context(), c.method, answering(t, c.status, media, c.body)+c.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := caller.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if body, err := io.ReadAll(resp.Body); err != nil || string(body) != c.body {
				t.Errorf("the caller read %q, error %v; want %q", body, err, c.body)
			}
			if waited := guard.Late() > 0; waited != c.waits {
				t.Errorf("did the write wait? got %v, want %v", waited, c.waits)
			}
		})
	}
}

func TestAWriteReturnsWhenTheCacheHasSeenIt(t *testing.T) {
	cache := newInformer()
	cache.see(t, "a", "u1", "99")
	caller, guard := guarded(t, cache, time.Minute)
	url := answering(t, 200, "application/json", written)
	done := make(chan error, 1)
	go func() {
		req, _ := http.NewRequest(http.MethodPut, url+machines+"/a", nil)
		resp, err := caller.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		done <- err
	}()
	for cache.asked.Load() < 3 { // after three looks at the cache, the write is surely waiting
		select {
		case err := <-done:
			t.Fatalf("the write returned early: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	cache.see(t, "a", "u1", "100")
	select {
	case err := <-done:
		if err != nil || guard.Late() != 0 {
			t.Errorf("the write returned error %v; the guard counted %d late writes", err, guard.Late())
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the write never returned")
	}
}

func TestACacheThatIsNotFilledIsNotWaitedFor(t *testing.T) {
	cache := newInformer()
	cache.synced.Store(false)
	cache.see(t, "a", "u1", "99")
	caller, guard := guarded(t, cache, time.Minute)
	resp, err := caller.Post(answering(t, 201, "application/json", written)+machines, "application/json", nil)
	if err != nil || guard.Late() != 0 {
		t.Fatalf("the write returned error %v; the guard counted %d late writes", err, guard.Late())
	}
	resp.Body.Close()
}

func TestAWriteEndsWithItsRequest(t *testing.T) {
	cache := newInformer()
	cache.see(t, "a", "u1", "99")
	caller, _ := guarded(t, cache, time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost,
		answering(t, 201, "application/json", written)+machines, nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for cache.asked.Load() < 2 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	if resp, err := caller.Do(req); err == nil {
		resp.Body.Close()
	}
}

func TestLargeAnswersPassWhole(t *testing.T) {
	body := `{"kind":"Machine","metadata":{"resourceVersion":"100"},"pad":"` + strings.Repeat("x", bodyLimit) + `"}`
	caller, guard := guarded(t, newInformer(), time.Minute)
	resp, err := caller.Post(answering(t, 201, "application/json", body)+machines, "application/json", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); err != nil || string(got) != body || guard.Late() != 0 {
		t.Errorf("got %d of %d bytes, error %v", len(got), len(body), err)
	}
}
