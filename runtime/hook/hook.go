package hook

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

// ID names one version of one hook.
type ID struct {
	// Group of the hook, for example "hooks.runtime.cluster.x-k8s.io".
	Group string
	// Version of the hook, for example "v1alpha1".
	Version string
	// Name of the hook in CamelCase, for example "BeforeClusterCreate".
	Name string
}

// String returns "group/version/Name".
func (id ID) String() string { return id.Group + "/" + id.Version + "/" + id.Name }

// APIVersion returns "group/version", the apiVersion of the hook's request and response.
func (id ID) APIVersion() string { return id.Group + "/" + id.Version }

// Family returns what all versions of the hook share. Extensions are selected by family, so that those on an older
// version are called too (CL-16).
func (id ID) Family() Family { return Family{Group: id.Group, Name: id.Name} }

// Path returns the URL path of a handler of the hook: /group/version/hook/handler in lower case (RX-06). Discovery has
// no handler name: pass "".
func (id ID) Path(handler string) string {
	path := "/" + id.Group + "/" + id.Version + "/" + strings.ToLower(id.Name)
	if handler != "" {
		path += "/" + strings.ToLower(handler)
	}
	return path
}

// Family is a hook without its version.
type Family struct {
	// Group of the hook.
	Group string
	// Name of the hook in CamelCase.
	Name string
}

// String returns "group/Name".
func (f Family) String() string { return f.Group + "/" + f.Name }

// Request constrains request types: a pointer to one is an API object.
type Request[T any] interface {
	*T
	runtime.Object
}

// Response constrains response types: a pointer to one is an API object with status and message.
type Response[T any] interface {
	*T
	runtimehooksv1.ResponseObject
}

// Hook is one version of a hook with the types of its request and response. Make it with [Define] or [Of].
type Hook[Req, Resp any] struct {
	descriptor *Descriptor
}

// Descriptor returns the hook without its types. It is nil for the zero Hook.
func (h Hook[Req, Resp]) Descriptor() *Descriptor { return h.descriptor }

// ID returns the ID of the hook.
func (h Hook[Req, Resp]) ID() ID { return h.descriptor.ID }

func (h Hook[Req, Resp]) register(b *builder) error {
	if h.descriptor == nil {
		return fmt.Errorf("a hook has no name: make it with hook.Define or hook.Of")
	}
	return b.add(h.descriptor)
}

// Define makes a hook in the caller's own group. On the wire, the kinds of its request and response are the name plus
// "Request" and "Response". [NewCatalog] reports an invalid name.
func Define[Req, Resp any, PReq Request[Req], PResp Response[Resp]](gv schema.GroupVersion,
	name string) Hook[Req, Resp] {
	_, retries := any(PResp(new(Resp))).(runtimehooksv1.RetryResponseObject)
	_, settings := any(PReq(new(Req))).(runtimehooksv1.RequestObject)
	return Hook[Req, Resp]{descriptor: &Descriptor{
		ID:           ID{Group: gv.Group, Version: gv.Version, Name: name},
		RequestKind:  name + "Request",
		ResponseKind: name + "Response",
		CanWait:      retries,
		HasSettings:  settings,
		newRequest:   func() runtime.Object { return PReq(new(Req)) },
		newResponse:  func() runtimehooksv1.ResponseObject { return PResp(new(Resp)) },
		copyRequest: func(request runtime.Object) (runtime.Object, bool) {
			typed, ok := request.(PReq)
			if !ok || typed == nil {
				return nil, false
			}
			clone := *typed
			return PReq(&clone), true
		},
		setResponse: func(to, from runtime.Object) bool {
			typedTo, ok := to.(PResp)
			if !ok || typedTo == nil {
				return false
			}
			typedFrom, ok := from.(PResp)
			if !ok || typedFrom == nil {
				return false
			}
			*typedTo = *typedFrom
			return true
		},
	}}
}

// Of makes a hook from a function that represents it, which is how Cluster API publishes hooks. The hook takes the
// function's name, and [Catalog.Lookup] finds it by the function.
func Of[Req, Resp any, PReq Request[Req], PResp Response[Resp]](gv schema.GroupVersion,
	function func(*Req, *Resp)) Hook[Req, Resp] {
	if function == nil {
		return Hook[Req, Resp]{}
	}
	h := Define[Req, Resp, PReq, PResp](gv, runtimecatalog.HookName(function))
	h.descriptor.function = reflect.ValueOf(function).Pointer()
	return h
}
