// Package readyourwrites makes a process read its own writes: a request that changes an object returns only when the
// caches of this process have seen the change.
//
// A controller that reads from a cache right after it wrote may not find what it made, and make it again. Cluster API
// guards against that in the same place where it limits each object to one reconcile per second; with that limit off,
// this package is the guard, and a wider one: it covers every write of the process, whoever wrote.
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
	// DefaultLimit bounds how long a write waits for the caches. A cache that is slower than that is broken, and the
	// write goes on.
	DefaultLimit = time.Second
	// bodyLimit bounds the answers that are looked at, in bytes. etcd does not store larger objects by default.
	bodyLimit = 3 << 20
)

// NewInformer makes an informer; see the field of this name in controller-runtime's cache.Options.
type NewInformer = func(toolscache.ListerWatcher, runtime.Object, time.Duration,
	toolscache.Indexers) toolscache.SharedIndexInformer

// Guard knows the caches of a process, and delays its writes until they have seen them.
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

// Informers wraps next so that the guard knows each informer it makes. Informers that see only some objects of a
// type, by a label for example, must not be shown to the guard: it would wait for what they never see. except names
// such types.
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

// WrappedRoundTripper lets client-go look inside.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip sends the request; after a change that worked it waits for the caches.
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

// wait returns when all informers that work have seen the change, the request ends, or the limit is over.
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

// object says what a request changes.
type object struct {
	resource schema.GroupResource
	key      types.NamespacedName
}

// changes returns what the request changes; ok is false if it changes nothing that a cache could hold.
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
		return object{}, false // a collection: the answer names no version
	}
	return target, true
}

// change is what an answer says about the state after the request.
type change struct {
	// version is the resource version of the object as it is now.
	version string
	// gone is the UID of an object that is no more.
	gone types.UID
}

// peek reads the answer and puts it back. The result is nil if the answer does not say what is needed.
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
		return nil, nil // larger than the limit, or nothing we know
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
		return err != nil || order >= 0 // versions that cannot be compared are no reason to wait
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
