// Package registry holds the handlers that a management cluster's ExtensionConfigs list (CL-15).
//
// [Registry.WarmUp] fills it once; [Registry.Put] and [Registry.Remove] then update single ExtensionConfigs. Readers
// never wait: every change makes a new snapshot, so looking up the handlers of a hook costs one map access.
//
// The order of handlers is always the same: by ExtensionConfig, then by handler name. The messages of their answers
// are joined in that order and end up in conditions, where a changing order would look like a change.
//
// Ids such as CL-15 are rules of the Runtime SDK's contract; RULES.md in the module's root explains them.
package registry

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/runtime/hook"
)

// Bounds of a handler's timeout (CL-02).
const (
	// DefaultTimeout applies to a handler that names none.
	DefaultTimeout = runtimehooksv1.DefaultHandlersTimeoutSeconds * time.Second
	// MaxTimeout is the longest timeout that a handler may name.
	MaxTimeout = 30 * time.Second
	// MaxHandlers is how many handlers an ExtensionConfig can list.
	MaxHandlers = 512
)

// ErrNotReady means that the registry has not been warmed up, so its content may be incomplete.
var ErrNotReady = errors.New("the registry of extensions is not warmed up yet: try again")

// Handler is one handler of one extension. It is immutable.
type Handler struct {
	// Name is unique in the management cluster: the name on the extension's server, a dot, the name of the
	// ExtensionConfig (RC-12).
	Name string
	// Local is the name on the extension's server.
	Local string
	// Hook is the version of the hook that the handler serves.
	Hook hook.ID
	// HookName is Hook as a string.
	HookName string
	// Target is the path and query of a call, relative to the extension's URL (RX-06). The query tells the extension how
	// long the call may take (CL-01).
	Target string
	// Timeout of one call, always above zero. A [TimeoutAnnotation] is already applied.
	Timeout time.Duration
	// IgnoreFailures is true for failure policy Ignore (CL-04). A [FailurePolicyAnnotation] is already applied.
	IgnoreFailures bool
	// Extension is what the handlers of one ExtensionConfig share.
	Extension *Extension
}

// Extension is one ExtensionConfig as it was registered. It is immutable; registering it again makes a new one.
type Extension struct {
	// Name of the ExtensionConfig.
	Name string
	// ResourceVersion of the ExtensionConfig.
	ResourceVersion string
	// Client says where the extension's server is and how to trust it.
	Client runtimev1.ClientConfig
	// Namespaces selects the namespaces whose objects the extension is called for; never nil.
	Namespaces labels.Selector
	// Objects selects the objects that the extension is called for, see [ObjectSelectorAnnotation]; never nil.
	Objects labels.Selector
	// Settings go into every request. Settings of the request itself take precedence (RC-21).
	Settings map[string]string
	// Fingerprint is equal for two registrations whose spec, annotations, labels and handlers are equal: everything that
	// an administrator or the extension can set. The ResourceVersion, in contrast, changes with every condition.
	Fingerprint string
}

// Registry holds the handlers. Make it with [New].
type Registry struct {
	change  sync.Mutex // held by writers
	current atomic.Pointer[snapshot]
}

type snapshot struct {
	extensions map[string][]*Handler
	byName     map[string]*Handler
	byHook     map[hook.Family]*Group
}

// New returns an empty registry that is not ready.
func New() *Registry { return &Registry{} }

// Ready reports whether WarmUp has succeeded.
func (r *Registry) Ready() bool { return r.current.Load() != nil }

// WarmUp fills the registry and makes it ready. It succeeds only once. If one ExtensionConfig is invalid, none is
// registered and WarmUp may be called again.
func (r *Registry) WarmUp(configs []runtimev1.ExtensionConfig) error {
	r.change.Lock()
	defer r.change.Unlock()
	if r.Ready() {
		return errors.New("warming up the registry of extensions: it is already warm")
	}
	extensions := make(map[string][]*Handler, len(configs))
	var errs []error
	for i := range configs {
		handlers, err := handlersOf(&configs[i])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		extensions[configs[i].Name] = handlers
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("warming up the registry of extensions: %w", err)
	}
	r.current.Store(snapshotOf(extensions))
	return nil
}

// Put registers the handlers in the ExtensionConfig's status and replaces those it had before.
func (r *Registry) Put(config *runtimev1.ExtensionConfig) error {
	if config == nil {
		return errors.New("registering an extension: the ExtensionConfig is nil")
	}
	handlers, err := handlersOf(config)
	if err != nil {
		return fmt.Errorf("registering an extension: %w", err)
	}
	return r.update(func(extensions map[string][]*Handler) { extensions[config.Name] = handlers })
}

// Remove forgets the handlers of an ExtensionConfig. Removing one that is not registered is not an error.
func (r *Registry) Remove(config string) error {
	return r.update(func(extensions map[string][]*Handler) { delete(extensions, config) })
}

func (r *Registry) update(change func(map[string][]*Handler)) error {
	r.change.Lock()
	defer r.change.Unlock()
	now := r.current.Load()
	if now == nil {
		return ErrNotReady
	}
	extensions := maps.Clone(now.extensions)
	change(extensions)
	r.current.Store(snapshotOf(extensions))
	return nil
}

// Handlers returns the handlers of all versions of a hook (CL-16), in a stable order. Do not change the slice.
func (r *Registry) Handlers(family hook.Family) ([]*Handler, error) {
	group, err := r.Group(family)
	return group.All(), err
}

// Group returns the handlers of all versions of a hook, ready to be narrowed down to those for one object. It returns
// nil, which is an empty group, if there are none.
func (r *Registry) Group(family hook.Family) (*Group, error) {
	now := r.current.Load()
	if now == nil {
		return nil, ErrNotReady
	}
	return now.byHook[family], nil
}

// Handler returns the handler with this unique name.
func (r *Registry) Handler(name string) (*Handler, error) {
	now := r.current.Load()
	if now == nil {
		return nil, ErrNotReady
	}
	handler, ok := now.byName[name]
	if !ok {
		return nil, fmt.Errorf("no extension has a handler %q: see the status of the ExtensionConfigs for those that exist",
			name)
	}
	return handler, nil
}

func snapshotOf(extensions map[string][]*Handler) *snapshot {
	s := &snapshot{extensions: extensions, byName: map[string]*Handler{}, byHook: map[hook.Family]*Group{}}
	for _, name := range slices.Sorted(maps.Keys(extensions)) {
		for _, handler := range extensions[name] {
			s.byName[handler.Name] = handler
			group := s.byHook[handler.Hook.Family()]
			if group == nil {
				group = &Group{}
				s.byHook[handler.Hook.Family()] = group
			}
			group.add(handler)
		}
	}
	return s
}

// Check returns why an ExtensionConfig could not be registered, nil if it could.
func Check(config *runtimev1.ExtensionConfig) error {
	_, err := handlersOf(config)
	return err
}

// handlersOf reads an ExtensionConfig, all or nothing. The result shares nothing with it.
func handlersOf(config *runtimev1.ExtensionConfig) ([]*Handler, error) {
	selector := labels.Everything()
	if config.Spec.NamespaceSelector != nil { // absent means all namespaces (RC-10)
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(config.Spec.NamespaceSelector); err != nil {
			return nil, fmt.Errorf("ExtensionConfig %q: reading spec.namespaceSelector: %w", config.Name, err)
		}
	}
	overrides, err := ReadOverrides(config.Annotations)
	if err != nil {
		return nil, fmt.Errorf("ExtensionConfig %q: %w", config.Name, err)
	}
	extension := &Extension{
		Name:            config.Name,
		ResourceVersion: config.ResourceVersion,
		Client:          *config.Spec.ClientConfig.DeepCopy(),
		Namespaces:      selector,
		Objects:         overrides.Objects(),
		Settings:        maps.Clone(config.Spec.Settings),
		Fingerprint:     fingerprint(config),
	}
	handlers := make([]*Handler, 0, len(config.Status.Handlers))
	var errs []error
	for _, h := range config.Status.Handlers {
		gv, err := schema.ParseGroupVersion(h.RequestHook.APIVersion)
		if err != nil {
			errs = append(errs, fmt.Errorf("ExtensionConfig %q: handler %q: reading the hook's apiVersion: %w", config.Name,
				h.Name, err))
			continue
		}
		local := strings.TrimSuffix(h.Name, "."+config.Name)
		id := hook.ID{Group: gv.Group, Version: gv.Version, Name: h.RequestHook.Hook}
		timeout := overrides.Timeout(local, timeoutOf(h.TimeoutSeconds))
		handlers = append(handlers, &Handler{
			Name:           h.Name,
			Local:          local,
			Hook:           id,
			HookName:       id.String(),
			Target:         Target(id, local, timeout),
			Timeout:        timeout,
			IgnoreFailures: overrides.FailurePolicy(local, h.FailurePolicy) == runtimev1.FailurePolicyIgnore,
			Extension:      extension,
		})
	}
	slices.SortFunc(handlers, func(a, b *Handler) int { return strings.Compare(a.Name, b.Name) })
	return handlers, errors.Join(errs...)
}

// Target returns the path and query of a call to a handler, relative to the extension's URL. Discovery has no handler
// name: pass "".
func Target(id hook.ID, handler string, timeout time.Duration) string {
	path := url.URL{Path: id.Path(handler), RawQuery: "timeout=" + timeout.String()}
	return path.RequestURI()
}

// fingerprint hashes an ExtensionConfig without its conditions.
func fingerprint(config *runtimev1.ExtensionConfig) string {
	// The order of handlers means nothing and changes with each discovery: the published server iterates over a map.
	handlers := slices.SortedFunc(slices.Values(config.Status.Handlers),
		func(a, b runtimev1.ExtensionHandler) int { return strings.Compare(a.Name, b.Name) })
	data, err := json.Marshal([]any{config.UID, config.Labels, config.Annotations, config.Spec, handlers})
	if err != nil { // can't happen: there are only strings and numbers
		return config.ResourceVersion
	}
	sum := sha256.Sum256(data)
	return string(sum[:])
}

// timeoutOf never exceeds the maximum, even for a status that somebody edited.
func timeoutOf(seconds int32) time.Duration {
	if seconds <= 0 {
		return DefaultTimeout
	}
	return min(time.Duration(seconds)*time.Second, MaxTimeout)
}
