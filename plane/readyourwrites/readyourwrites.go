// Package readyourwrites makes a process read its own writes: a request that changes an object returns only when the
// caches of this process have seen the change.
//
// If a controller reads from a cache right after a write, it may miss the object that it has just created. Then it
// creates the object again. Cluster API prevents that where it limits each object to one reconcile per second. With
// that limit off, this package prevents the second creation, and more thoroughly: it covers every write of the process,
// regardless of who makes the write.
package readyourwrites

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/capstan-dev/capstan/internal/backoff"
)

const (
	// DefaultLimit bounds how long a write waits for the caches. A slower cache counts as broken, and the write proceeds.
	DefaultLimit = time.Second
	// bodyLimit bounds the responses that are examined, in bytes. By default etcd does not store larger objects.
	bodyLimit = 3 << 20
)

// NewInformer creates an informer; see the field of this name in controller-runtime's cache.Options.
type NewInformer = func(toolscache.ListerWatcher, runtime.Object, time.Duration,
	toolscache.Indexers) toolscache.SharedIndexInformer

// Guard knows the caches of a process, and delays each write of the process until the caches have seen it.
type Guard struct {
	scheme *runtime.Scheme
	limit  time.Duration

	mu        sync.RWMutex
	informers map[schema.GroupResource][]toolscache.SharedIndexInformer
	late      int
}

// New returns a guard. limit bounds the wait of one write; zero means [DefaultLimit].
func New(scheme *runtime.Scheme, limit time.Duration) *Guard {
	if limit <= 0 {
		limit = DefaultLimit
	}
	return &Guard{scheme: scheme, limit: limit, informers: map[schema.GroupResource][]toolscache.SharedIndexInformer{}}
}

// Informers wraps the function next so that the guard knows each informer that it creates. The guard must not know
// informers that see only some objects of a type, for example those with a label, because the guard would wait for
// objects that those informers never see. The parameter except lists such types.
func (g *Guard) Informers(next NewInformer, except ...schema.GroupResource) NewInformer {
	return func(lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration,
		indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		informer := next(lw, example, resync, indexers)
		gvk, err := apiutil.GVKForObject(example, g.scheme)
		if err != nil {
			return informer
		}
		plural, _ := meta.UnsafeGuessKindToResource(gvk)
		resource := plural.GroupResource()
		for _, e := range except {
			if e == resource {
				return informer
			}
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.informers[resource] = append(g.informers[resource], informer)
		return informer
	}
}

// Late returns how many writes gave up waiting for a cache.
func (g *Guard) Late() int {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.late
}

// Wrap wraps the transport of the process's clients; see rest.Config.Wrap.
func (g *Guard) Wrap(next http.RoundTripper) http.RoundTripper {
	return transport{guard: g, next: next}
}

type transport struct {
	guard *Guard
	next  http.RoundTripper
}

// WrappedRoundTripper lets client-go access the wrapped transport.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip sends the request. After a successful change it waits for the caches.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(req)
	if err != nil || resp.StatusCode >= 300 {
		return resp, err
	}
	target, ok := changes(req)
	if !ok {
		return resp, nil
	}
	informers := t.guard.of(target.resource)
	if len(informers) == 0 {
		return resp, nil
	}
	seen, err := peek(resp)
	if err != nil {
		return nil, err
	}
	if seen == nil {
		return resp, nil
	}
	t.guard.wait(req, informers, func(store toolscache.Store) bool { return seen.in(store, target) })
	return resp, nil
}

func (g *Guard) of(resource schema.GroupResource) []toolscache.SharedIndexInformer {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.informers[resource]
}

// wait returns when all running informers have seen the change, the request ends, or the limit has passed.
func (g *Guard) wait(req *http.Request, informers []toolscache.SharedIndexInformer, seen func(toolscache.Store) bool) {
	deadline := time.Now().Add(g.limit)
	pauses := backoff.Backoff{First: 500 * time.Microsecond, Max: 8 * time.Millisecond}
	for _, informer := range informers {
		for informer.HasSynced() && !informer.IsStopped() && !seen(informer.GetStore()) {
			if time.Now().After(deadline) {
				g.mu.Lock()
				g.late++
				g.mu.Unlock()
				return
			}
			if pauses.Wait(req.Context()) != nil {
				return
			}
		}
	}
}

// object identifies what a request changes.
type object struct {
	resource schema.GroupResource
	key      types.NamespacedName
}

// changes returns what the request changes; ok is false if no cache could hold it.
func changes(req *http.Request) (target object, ok bool) {
	switch req.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return object{}, false
	}
	if req.URL.Query().Has("dryRun") {
		return object{}, false
	}
	// .../api/v1/... or .../apis/GROUP/VERSION/..., then [namespaces/NAMESPACE/]RESOURCE[/NAME[/SUBRESOURCE]]
	path := strings.Trim(req.URL.Path, "/")
	var rest string
	if after, found := strings.CutPrefix(path, "apis/"); found {
		parts := strings.SplitN(after, "/", 3)
		if len(parts) < 3 {
			return object{}, false
		}
		target.resource.Group, rest = parts[0], parts[2]
	} else if after, found := strings.CutPrefix(path, "api/v1/"); found {
		rest = after
	} else {
		return object{}, false
	}
	parts := strings.Split(rest, "/")
	if parts[0] == "namespaces" && len(parts) > 2 {
		target.key.Namespace, parts = parts[1], parts[2:]
	}
	target.resource.Resource = parts[0]
	if len(parts) > 1 {
		target.key.Name = parts[1]
	}
	if req.Method == http.MethodDelete && len(parts) == 1 {
		return object{}, false // a collection: the response contains no version
	}
	return target, true
}

// change is what a response says about the state after the request.
type change struct {
	// version is the new resource version of the object.
	version string
	// gone is the UID of a deleted object.
	gone types.UID
}

// peek reads the response and puts it back. The result is nil if the response does not contain what is needed.
func peek(resp *http.Response) (*change, error) {
	if media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, bodyLimit))
	if err != nil {
		resp.Body.Close()
		return nil, err
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), resp.Body), resp.Body}
	var answer struct {
		Kind     string `json:"kind"`
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Details struct {
			UID types.UID `json:"uid"`
		} `json:"details"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return nil, nil // the response is too large, or has an unknown format
	}
	switch {
	case answer.Kind == "Status" && answer.Details.UID != "":
		return &change{gone: answer.Details.UID}, nil
	case answer.Kind != "Status" && answer.Metadata.ResourceVersion != "":
		return &change{version: answer.Metadata.ResourceVersion}, nil
	}
	return nil, nil
}

// in reports whether store has seen the change.
func (c change) in(store toolscache.Store, target object) bool {
	if c.gone == "" {
		order, err := resourceversion.CompareResourceVersion(store.LastStoreSyncResourceVersion(), c.version)
		return err != nil || order >= 0 // don't wait if the versions can't be compared
	}
	key := target.key.Name
	if target.key.Namespace != "" {
		key = target.key.String()
	}
	item, exists, err := store.GetByKey(key)
	if err != nil || !exists {
		return true
	}
	accessor, err := meta.Accessor(item)
	return err != nil || accessor.GetUID() != c.gone
}
