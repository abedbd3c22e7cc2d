package client

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/internal/wire"
	"github.com/capstan-dev/capstan/runtime/registry"
)

// requests encodes one request for many handlers, once for each version and each set of settings. It does not change
// the caller's request, which is used for other calls too. Make it with newRequests, and release it when all calls
// have ended.
type requests struct {
	catalog    *hook.Catalog
	descriptor *hook.Descriptor
	request    runtimehooksv1.RequestObject
	own        map[string]string // the request's settings

	encoded []encodedRequest // few, because most extensions have no settings
	buffers []*[]byte
}

type encodedRequest struct {
	version  hook.ID
	settings map[string]string
	body     []byte
}

// newRequests fails if the request is nil or does not belong to the hook.
func newRequests(catalog *hook.Catalog, descriptor *hook.Descriptor,
	request runtimehooksv1.RequestObject) (*requests, error) {
	if request == nil {
		return nil, errors.New("the request is nil")
	}
	if _, err := descriptor.CopyRequest(request); err != nil {
		return nil, err
	}
	return &requests{catalog: catalog, descriptor: descriptor, request: request, own: request.GetSettings()}, nil
}

// body returns the encoded request for a handler.
func (r *requests) body(h *registry.Handler, conversion *hook.Conversion) ([]byte, error) {
	settings := r.settings(h)
	for _, e := range r.encoded {
		if e.version == h.Hook && maps.Equal(e.settings, settings) {
			return e.body, nil
		}
	}
	body, err := r.encode(settings, conversion)
	if err != nil {
		return nil, err
	}
	if len(body) > wire.MaxBody {
		return nil, fmt.Errorf("the request has %d bytes: at most %d are allowed", len(body), wire.MaxBody)
	}
	r.encoded = append(r.encoded, encodedRequest{version: h.Hook, settings: settings, body: body})
	return body, nil
}

func (r *requests) encode(settings map[string]string, conversion *hook.Conversion) ([]byte, error) {
	request, err := r.with(settings)
	if err != nil {
		return nil, err
	}
	served := r.descriptor
	if conversion != nil {
		if request, err = conversion.Down(request); err != nil {
			return nil, err
		}
		served = conversion.Served()
	}
	buffer := bodies.Get().(*[]byte)
	r.buffers = append(r.buffers, buffer)
	*buffer, err = wire.AppendEncoded((*buffer)[:0], request, served.ID.APIVersion(), served.RequestKind)
	return *buffer, err
}

// bodies pools request buffers, because nearly every call needs one of some kilobytes.
var bodies = sync.Pool{New: func() any { return new([]byte) }}

// release returns the buffers to the pool. The bodies must not be used afterwards.
func (r *requests) release() {
	for _, buffer := range r.buffers {
		if cap(*buffer) <= 1<<20 { // larger ones are rare and not worth keeping
			bodies.Put(buffer)
		}
	}
	r.encoded, r.buffers = nil, nil
}

// settings merges the settings of the ExtensionConfig and of the request; the latter win (RC-21).
func (r *requests) settings(h *registry.Handler) map[string]string {
	if len(h.Extension.Settings) == 0 {
		return r.own
	}
	if len(r.own) == 0 {
		return h.Extension.Settings
	}
	merged := maps.Clone(h.Extension.Settings)
	maps.Copy(merged, r.own)
	return merged
}

// with returns a copy of the request with these settings.
func (r *requests) with(settings map[string]string) (runtime.Object, error) {
	request, err := r.descriptor.CopyRequest(r.request)
	if err != nil {
		return nil, err
	}
	request.(runtimehooksv1.RequestObject).SetSettings(settings)
	return request, nil
}

// canonical returns a string that is equal for equal settings and different for different ones.
func canonical(settings map[string]string) string {
	if len(settings) == 0 {
		return ""
	}
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		text.WriteString(strconv.Quote(key) + "=" + strconv.Quote(settings[key]) + ",")
	}
	return text.String()
}
