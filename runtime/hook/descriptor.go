package hook

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

// Descriptor is a hook without its types, for code that handles any hook, such as the client, the server and tools.
type Descriptor struct {
	// ID names the hook.
	ID ID
	// RequestKind is the kind of the request on the wire.
	RequestKind string
	// ResponseKind is the kind of the response on the wire.
	ResponseKind string
	// CanWait reports whether responses have the field retryAfterSeconds; only handlers of such hooks may block
	// (LH-03).
	CanWait bool
	// HasSettings reports whether requests have settings. Only requests of Discovery do not.
	HasSettings bool

	// function is the code pointer of the published function, 0 if there is none. Function values can't be compared, but
	// their code pointers can; and unlike the functions' types, code pointers differ for each hook.
	function uintptr

	newRequest  func() runtime.Object
	newResponse func() runtimehooksv1.ResponseObject
	copyRequest func(runtime.Object) (runtime.Object, bool)
	setResponse func(to, from runtime.Object) bool
}

// NewRequest returns an empty request.
func (d *Descriptor) NewRequest() runtime.Object { return d.newRequest() }

// NewResponse returns an empty response.
func (d *Descriptor) NewResponse() runtimehooksv1.ResponseObject { return d.newResponse() }

// CopyRequest returns a shallow copy of a request: fields of the copy may be set, but pointers, maps and slices are
// shared. It fails if the request is nil or does not belong to this hook.
func (d *Descriptor) CopyRequest(request runtime.Object) (runtime.Object, error) {
	clone, ok := d.copyRequest(request)
	if !ok {
		return nil, fmt.Errorf("a request of hook %s can't be a %T: pass a %s", d.ID, request, d.RequestKind)
	}
	return clone, nil
}

// SetResponse replaces the whole of one response by another. It fails if either is nil or does not belong to this
// hook.
func (d *Descriptor) SetResponse(to, from runtime.Object) error {
	if !d.setResponse(to, from) {
		return fmt.Errorf("a response of hook %s can't go from %T to %T: both must be a %s", d.ID, from, to, d.ResponseKind)
	}
	return nil
}

// CheckResponse fails if the response is nil or does not belong to this hook.
func (d *Descriptor) CheckResponse(response runtime.Object) error {
	if !d.setResponse(response, response) {
		return fmt.Errorf("a response of hook %s can't be a %T: pass a %s", d.ID, response, d.ResponseKind)
	}
	return nil
}
