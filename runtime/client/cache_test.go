package client_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	runtimeclient "sigs.k8s.io/cluster-api/exp/runtime/client"

	"github.com/capstan-dev/capstan/runtime/client"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/server"
)

// mapCache is the caller's cache.
type mapCache map[string]runtimeclient.CallExtensionCacheEntry

func (c mapCache) Add(entry runtimeclient.CallExtensionCacheEntry) { c[entry.Key()] = entry }
func (c mapCache) Has(key string) (runtimeclient.CallExtensionCacheEntry, bool) {
	entry, ok := c[key]
	return entry, ok
}
func (c mapCache) Len() int   { return len(c) }
func (c mapCache) DeleteAll() { clear(c) }

// walking is like the function that Cluster API passes: it iterates over a map.
func walking(name, resourceVersion string, request runtimehooksv1.RequestObject) string {
	key := name + "-" + resourceVersion
	for k, v := range request.GetSettings() {
		key += fmt.Sprintf(",%s=%s", k, v)
	}
	return key
}

func discoverVariables(t *testing.T, b *bench, cache mapCache,
	settings map[string]string) *runtimehooksv1.DiscoverVariablesResponse {
	t.Helper()
	request := &runtimehooksv1.DiscoverVariablesRequest{}
	request.Settings = settings
	response := &runtimehooksv1.DiscoverVariablesResponse{}
	err := b.client.CallExtension(t.Context(), runtimehooksv1.DiscoverVariables, testCluster(), "vars.ext",
		request, response,
		runtimeclient.WithCaching{Cache: cache, CacheKeyFunc: walking})
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// The ninth defect seen in other clients: the cache key depended on the iteration order of a map, so equal requests
// were sent again.
func TestDefectCacheKeyDoesNotDependOnMapOrder(t *testing.T) {
	b := newBench(t, client.Options{})
	var calls atomic.Int32
	b.extension("ext", func(config *runtimev1.ExtensionConfig) {
		config.Spec.Settings = map[string]string{"x": "1", "y": "2", "z": "3"}
	},
		server.Handle(hook.DiscoverVariables, "vars",
			func(_ context.Context, request *runtimehooksv1.DiscoverVariablesRequest,
				response *runtimehooksv1.DiscoverVariablesResponse) error {
				calls.Add(1)
				response.Variables = []clusterv1.ClusterClassVariable{{Name: request.Settings["a"]}}
				return nil
			}))
	cache := mapCache{}
	for range 50 {
		response := discoverVariables(t, b, cache, map[string]string{"a": "name", "b": "2", "c": "3", "d": "4"})
		if response.Variables[0].Name != "name" || response.Status != runtimehooksv1.ResponseStatusSuccess {
			t.Fatalf("got %+v", response)
		}
		response.Variables[0].Name = "changed by the caller"
	}
	if calls.Load() != 1 {
		t.Errorf("%d calls for equal requests", calls.Load())
	}
	if got := discoverVariables(t, b, cache, map[string]string{"a": "other"}); got.Variables[0].Name != "other" ||
		calls.Load() != 2 {
		t.Errorf("other settings gave %+v after %d calls", got, calls.Load())
	}
	if len(b.observed()) != 2 {
		t.Errorf("%d calls were observed, 2 were made", len(b.observed()))
	}
}

func TestOnlyRealSuccessesAreCached(t *testing.T) {
	for name, start := range map[string]func(*bench){
		"an ignored failure": func(b *bench) { b.raw(runtimev1.FailurePolicyIgnore, 1, body("junk")) },
		"a blocking answer": func(b *bench) {
			b.extension("ext", nil, server.Handle(hook.BeforeClusterCreate, "gate", waits(time.Second, "later")))
		},
		"a failure": func(b *bench) {
			b.extension("ext", nil, server.Handle(hook.BeforeClusterCreate, "gate", fails("no")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, client.Options{})
			start(b)
			cache := mapCache{}
			for range 2 {
				_ = b.client.CallExtension(t.Context(), runtimehooksv1.BeforeClusterCreate, testCluster(), "gate.ext",
					&runtimehooksv1.BeforeClusterCreateRequest{}, &runtimehooksv1.BeforeClusterCreateResponse{},
					runtimeclient.WithCaching{Cache: cache, CacheKeyFunc: walking})
			}
			if cache.Len() != 0 || len(b.observed()) != 2 {
				t.Errorf("%d answers are cached after %d calls", cache.Len(), len(b.observed()))
			}
		})
	}
}
