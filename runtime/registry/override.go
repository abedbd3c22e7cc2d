package registry

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
)

// Annotations of an ExtensionConfig with which an administrator overrides what the extension suggests, and narrows
// down the objects that it is called for. The specification leaves timeouts and failure policies to the administrator,
// but the published resource has no fields for them.
//
//	metadata:
//	  annotations:
//	    runtime.capstan.dev/timeout: 5s                      # of all handlers
//	    timeout.runtime.capstan.dev/gate: 20s                # of the handler "gate", which wins
//	    runtime.capstan.dev/failure-policy: Fail             # of all handlers: Fail or Ignore
//	    failure-policy.runtime.capstan.dev/report: Ignore    # of the handler "report", which wins
//	    runtime.capstan.dev/object-selector: tier in (gold)  # a label selector for the objects that hooks are called for
const (
	// TimeoutAnnotation is the timeout of a call, 1s to 30s.
	TimeoutAnnotation = "runtime.capstan.dev/timeout"
	// TimeoutAnnotationPrefix is followed by the name of a handler.
	TimeoutAnnotationPrefix = "timeout.runtime.capstan.dev/"
	// FailurePolicyAnnotation is Fail or Ignore.
	FailurePolicyAnnotation = "runtime.capstan.dev/failure-policy"
	// FailurePolicyAnnotationPrefix is followed by the name of a handler.
	FailurePolicyAnnotationPrefix = "failure-policy.runtime.capstan.dev/"
	// ObjectSelectorAnnotation selects objects by their labels (RC-19). Without it all objects match.
	ObjectSelectorAnnotation = "runtime.capstan.dev/object-selector"
)

// Overrides are what an administrator has set by annotations. The zero value overrides nothing.
type Overrides struct {
	timeout  time.Duration
	timeouts map[string]time.Duration // by name of the handler on its server
	policy   runtimev1.FailurePolicy
	policies map[string]runtimev1.FailurePolicy
	objects  labels.Selector
}

// ReadOverrides reads the annotations of an ExtensionConfig. The error names each annotation that can't be read and
// the value that it must have.
func ReadOverrides(annotations map[string]string) (Overrides, error) {
	var o Overrides
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if err := o.read(key, annotations[key]); err != nil {
			errs = append(errs, fmt.Errorf("annotation %s: %w", key, err))
		}
	}
	return o, errors.Join(errs...)
}

func (o *Overrides) read(key, value string) (err error) {
	if handler, ok := strings.CutPrefix(key, TimeoutAnnotationPrefix); ok {
		timeout, err := parseTimeout(value)
		return put(&o.timeouts, handler, timeout, err)
	}
	if handler, ok := strings.CutPrefix(key, FailurePolicyAnnotationPrefix); ok {
		policy, err := parsePolicy(value)
		return put(&o.policies, handler, policy, err)
	}
	switch key {
	case TimeoutAnnotation:
		o.timeout, err = parseTimeout(value)
	case FailurePolicyAnnotation:
		o.policy, err = parsePolicy(value)
	case ObjectSelectorAnnotation:
		if o.objects, err = labels.Parse(value); err != nil {
			err = fmt.Errorf("it must be a label selector such as \"tier in (gold)\": %w", err)
		}
	}
	return err
}

func put[T any](to *map[string]T, handler string, value T, err error) error {
	if err != nil {
		return err
	}
	if *to == nil {
		*to = map[string]T{}
	}
	(*to)[handler] = value
	return nil
}

func parseTimeout(value string) (time.Duration, error) {
	timeout, err := time.ParseDuration(value)
	if err != nil || timeout < time.Second || timeout > MaxTimeout {
		return 0, fmt.Errorf("it is %q: it must be a duration of 1s to %s", value, MaxTimeout)
	}
	return timeout, nil
}

func parsePolicy(value string) (runtimev1.FailurePolicy, error) {
	switch policy := runtimev1.FailurePolicy(value); policy {
	case runtimev1.FailurePolicyFail, runtimev1.FailurePolicyIgnore:
		return policy, nil
	}
	return "", fmt.Errorf("it is %q: it must be Fail or Ignore", value)
}

// Timeout returns the timeout of a handler, given the one that the extension suggests.
func (o Overrides) Timeout(handler string, suggested time.Duration) time.Duration {
	if timeout, ok := o.timeouts[handler]; ok {
		return timeout
	}
	if o.timeout != 0 {
		return o.timeout
	}
	return suggested
}

// FailurePolicy returns the failure policy of a handler, given the one that the extension suggests.
func (o Overrides) FailurePolicy(handler string, suggested runtimev1.FailurePolicy) runtimev1.FailurePolicy {
	if policy, ok := o.policies[handler]; ok {
		return policy
	}
	if o.policy != "" {
		return o.policy
	}
	return suggested
}

// Objects returns the object selector. Without an annotation it matches everything.
func (o Overrides) Objects() labels.Selector {
	if o.objects == nil {
		return labels.Everything()
	}
	return o.objects
}

// Unused returns the overridden handlers that are not among these, sorted. Most likely somebody has mistyped a name.
func (o Overrides) Unused(handlers []string) []string {
	unused := map[string]bool{}
	for name := range o.timeouts {
		unused[name] = true
	}
	for name := range o.policies {
		unused[name] = true
	}
	for _, name := range handlers {
		delete(unused, name)
	}
	return slices.Sorted(maps.Keys(unused))
}
