package client

import (
	"errors"
	"fmt"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimeclient "sigs.k8s.io/cluster-api/exp/runtime/client"

	"github.com/capstan-dev/capstan/runtime/registry"
)

// answerCache is the entry for one request in the caller's cache of answers. The zero value caches nothing.
type answerCache struct {
	options runtimeclient.CallExtensionOptions
	key     string
}

// newAnswerCache computes the key. The caller's function gets the request without settings; they are appended here in
// a fixed order. The function that Cluster API passes for DiscoverVariables iterates over the map of settings, so its
// keys for equal requests would differ at random.
func newAnswerCache(h *registry.Handler, r *requests, opts []runtimeclient.CallExtensionOption) (answerCache, error) {
	var c answerCache
	for _, opt := range opts {
		opt.ApplyToOptions(&c.options)
	}
	if !c.options.WithCaching {
		return c, nil
	}
	if c.options.Cache == nil || c.options.CacheKeyFunc == nil {
		return c, errors.New("the option WithCaching needs a Cache and a CacheKeyFunc")
	}
	bare, err := r.with(nil)
	if err != nil {
		return c, err
	}
	key := c.options.CacheKeyFunc(h.Name, h.Extension.ResourceVersion, bare.(runtimehooksv1.RequestObject))
	c.key = fmt.Sprintf("%s {%s}", key, canonical(r.settings(h)))
	return c, nil
}

func (c answerCache) get() (runtimehooksv1.ResponseObject, bool) {
	if !c.options.WithCaching {
		return nil, false
	}
	entry, ok := c.options.Cache.Has(c.key)
	if !ok {
		return nil, false
	}
	// The caller may change the response, but the cache is shared.
	response, ok := entry.Response.DeepCopyObject().(runtimehooksv1.ResponseObject)
	return response, ok
}

func (c answerCache) put(response runtimehooksv1.ResponseObject) {
	if !c.options.WithCaching {
		return
	}
	if kept, ok := response.DeepCopyObject().(runtimehooksv1.ResponseObject); ok {
		c.options.Cache.Add(runtimeclient.CallExtensionCacheEntry{CacheKey: c.key, Response: kept})
	}
}
