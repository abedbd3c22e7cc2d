package client

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/internal/wire"
	"github.com/capstan-dev/capstan/runtime/registry"
)

// requests encodes one request for many handlers, once for each version and each set of settings. The caller's request is not
// changed: it is used again for other calls.
type requests struct {
	catalog    *hook.Catalog
	descriptor *hook.Descriptor
	request    runtimehooksv1.RequestObject

	bodies map[requestKey][]byte
}

type requestKey struct {
	version  hook.ID
	settings string
}

// body gives the encoded request for a handler.
func (r *requests) body(h *registry.Handler, conversion *hook.Conversion) ([]byte, error) {
	settings, err := r.settings(h)
	if err != nil {
		return nil, err
	}
	key := requestKey{version: h.Hook, settings: canonical(settings)}
	if body, ok := r.bodies[key]; ok {
		return body, nil
	}
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
	body, err := wire.Encode(request, served.ID.APIVersion(), served.RequestKind)
	if err != nil {
		return nil, err
	}
	if len(body) > wire.MaxBody {
		return nil, fmt.Errorf("the request has %d bytes, %d are allowed", len(body), wire.MaxBody)
	}
	if r.bodies == nil {
		r.bodies = map[requestKey][]byte{}
	}
	r.bodies[key] = body
	return body, nil
}

// settings merges those of the ExtensionConfig with those of the request, which win (RC-21).
func (r *requests) settings(h *registry.Handler) (map[string]string, error) {
	if r.request == nil {
		return nil, errors.New("the request is nil")
	}
	if _, err := r.descriptor.CopyRequest(r.request); err != nil {
		return nil, err
	}
	own := r.request.GetSettings()
	if len(h.Extension.Settings) == 0 {
		return own, nil
	}
	if len(own) == 0 {
		return h.Extension.Settings, nil
	}
	merged := maps.Clone(h.Extension.Settings)
	maps.Copy(merged, own)
	return merged, nil
}

// with gives a copy of the request with these settings.
func (r *requests) with(settings map[string]string) (runtime.Object, error) {
	request, err := r.descriptor.CopyRequest(r.request)
	if err != nil {
		return nil, err
	}
	request.(runtimehooksv1.RequestObject).SetSettings(settings)
	return request, nil
}

// canonical gives a text that is the same for equal settings and different for different ones.
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
