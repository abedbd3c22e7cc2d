package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/internal/post"
	"github.com/capstan-dev/capstan/runtime/internal/wire"
	"github.com/capstan-dev/capstan/runtime/registry"
)

const (
	// HooksKnownCondition is False on an ExtensionConfig with handlers for hooks that are not in the catalog. Its message
	// names these handlers. They are not called, but all other handlers are. Without such handlers, the condition is
	// absent.
	HooksKnownCondition = "HooksKnown"
	// UnknownHooksReason is the reason of HooksKnownCondition.
	UnknownHooksReason = "UnknownHooks"

	discoveryTimeout = 10 * time.Second
)

// Discover asks the extension for its handlers, and returns a copy of the ExtensionConfig with them in its status,
// named handler.extensionconfig (RC-11 to RC-15). Handlers of hooks that are not in the catalog are left out and
// reported in HooksKnownCondition, so that an extension may serve a newer hook before the management cluster knows it.
func (c *Client) Discover(ctx context.Context, config *runtimev1.ExtensionConfig) (*runtimev1.ExtensionConfig, error) {
	if config == nil {
		return nil, errors.New("discovering an extension: the ExtensionConfig is nil")
	}
	found, err := c.discover(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("discovering the handlers of ExtensionConfig %q: %w", config.Name, err)
	}
	discovered := config.DeepCopy()
	handlers, unknown, err := readDiscovery(c.options.Catalog, config.Name, found)
	if err != nil {
		return nil, fmt.Errorf("discovering the handlers of ExtensionConfig %q: %w", config.Name, err)
	}
	discovered.Status.Handlers = handlers
	if len(unknown) == 0 {
		meta.RemoveStatusCondition(&discovered.Status.Conditions, HooksKnownCondition)
		return discovered, nil
	}
	message := "Handlers of unknown hooks are not called: " + strings.Join(unknown, ", ")
	log.FromContext(ctx).Info(message, "ExtensionConfig", config.Name)
	meta.SetStatusCondition(&discovered.Status.Conditions, metav1.Condition{
		Type: HooksKnownCondition, Status: metav1.ConditionFalse, Reason: UnknownHooksReason,
		Message: wire.Clip(message, wire.MaxMessage), ObservedGeneration: config.Generation,
	})
	return discovered, nil
}

func (c *Client) discover(ctx context.Context,
	config *runtimev1.ExtensionConfig) ([]runtimehooksv1.ExtensionHandler, error) {
	// A separate endpoint: the ExtensionConfig may never be registered, and discovery is rare.
	endpoint, err := newEndpoint(config.Spec.ClientConfig, c.endpoints.options)
	if err != nil {
		return nil, err
	}
	defer endpoint.poster.Retire()
	discovery := hook.Discovery.Descriptor()
	request, err := wire.Encode(discovery.NewRequest(), discovery.ID.APIVersion(), discovery.RequestKind)
	if err != nil {
		return nil, err
	}
	response := &runtimehooksv1.DiscoveryResponse{}
	var call post.Call
	defer context.AfterFunc(ctx, call.End)()
	if err := endpoint.exchange(ctx, &call, exchange{
		served: discovery, target: discoveryTarget, timeout: discoveryTimeout, start: time.Now(), body: request,
	}, response); err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	if err := checkAnswer(response); err != nil {
		return nil, err
	}
	c.endpoints.answered(config.Name)
	return response.Handlers, nil
}

// readDiscovery converts an answer of Discovery to the handlers of an ExtensionConfig's status, with defaults. It
// returns handlers of unknown hooks separately. The error names everything that is wrong.
func readDiscovery(catalog *hook.Catalog, extension string,
	found []runtimehooksv1.ExtensionHandler) (handlers []runtimev1.ExtensionHandler, unknown []string, err error) {
	if len(found) > registry.MaxHandlers {
		return nil, nil, fmt.Errorf("it has %d handlers: at most %d are allowed", len(found), registry.MaxHandlers)
	}
	handlers = []runtimev1.ExtensionHandler{}
	names := map[string]bool{}
	var errs []error
	for _, h := range found {
		if problems := checkHandler(h); len(problems) > 0 {
			errs = append(errs, fmt.Errorf("handler %q: %s", wire.Clip(h.Name, 64), strings.Join(problems, ", ")))
			continue
		}
		if names[h.Name] {
			errs = append(errs, fmt.Errorf("handler %q: another one has the same name", h.Name))
			continue
		}
		names[h.Name] = true
		if !isKnown(catalog, h.RequestHook) {
			unknown = append(unknown, fmt.Sprintf("%s (%s/%s)", h.Name, wire.Clip(h.RequestHook.APIVersion, 128),
				wire.Clip(h.RequestHook.Hook, 64)))
			continue
		}
		handlers = append(handlers, statusOf(extension, h))
	}
	slices.Sort(unknown) // the message must not depend on the order of the answer
	return handlers, unknown, joinErrors(errs)
}

// checkHandler returns what is wrong with one entry (RX-16 to RX-19).
func checkHandler(h runtimehooksv1.ExtensionHandler) []string {
	var problems []string
	if wrong := validation.IsDNS1123Label(h.Name); len(wrong) > 0 {
		problems = append(problems, "the name is not valid: "+wrong[0])
	}
	if h.TimeoutSeconds != nil && (*h.TimeoutSeconds < 0 ||
		time.Duration(*h.TimeoutSeconds)*time.Second > registry.MaxTimeout) {
		problems = append(problems, fmt.Sprintf("timeoutSeconds is %d: it must be 0 to %d", *h.TimeoutSeconds,
			wholeSeconds(registry.MaxTimeout)))
	}
	if p := h.FailurePolicy; p != nil && *p != runtimehooksv1.FailurePolicyFail &&
		*p != runtimehooksv1.FailurePolicyIgnore {
		problems = append(problems, fmt.Sprintf("failurePolicy is %q: it must be Fail or Ignore",
			wire.Clip(string(*p), 64)))
	}
	if gv, err := schema.ParseGroupVersion(h.RequestHook.APIVersion); err != nil || gv.Group == "" || gv.Version == "" {
		problems = append(problems, fmt.Sprintf("requestHook.apiVersion is %q: it must be group/version",
			wire.Clip(h.RequestHook.APIVersion, 128)))
	}
	if h.RequestHook.Hook == "" {
		problems = append(problems, "requestHook.hook is empty")
	}
	return problems
}

func isKnown(catalog *hook.Catalog, requestHook runtimehooksv1.GroupVersionHook) bool {
	gv, _ := schema.ParseGroupVersion(requestHook.APIVersion) // checked by checkHandler
	_, known := catalog.Get(hook.ID{Group: gv.Group, Version: gv.Version, Name: requestHook.Hook})
	return known
}

func statusOf(extension string, h runtimehooksv1.ExtensionHandler) runtimev1.ExtensionHandler {
	status := runtimev1.ExtensionHandler{
		Name:           h.Name + "." + extension,
		RequestHook:    runtimev1.GroupVersionHook{APIVersion: h.RequestHook.APIVersion, Hook: h.RequestHook.Hook},
		TimeoutSeconds: wholeSeconds(registry.DefaultTimeout),
		FailurePolicy:  runtimev1.FailurePolicyFail,
	}
	if h.TimeoutSeconds != nil && *h.TimeoutSeconds != 0 {
		status.TimeoutSeconds = *h.TimeoutSeconds
	}
	if h.FailurePolicy != nil {
		status.FailurePolicy = runtimev1.FailurePolicy(*h.FailurePolicy)
	}
	return status
}

// joinErrors joins errors in one line, because the text ends up in conditions.
func joinErrors(errs []error) error {
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	return &joinedError{errs}
}

type joinedError struct{ errs []error }

func (e *joinedError) Error() string {
	texts := make([]string, len(e.errs))
	for i, err := range e.errs {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (e *joinedError) Unwrap() []error { return e.errs }
