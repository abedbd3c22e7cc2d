package extensionconfig

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/registry"
)

const (
	// HooksCurrentCondition is False on an ExtensionConfig with handlers for deprecated versions of hooks. Without such
	// handlers, the condition is absent.
	HooksCurrentCondition = "HooksCurrent"
	// DeprecatedHooksReason is the reason of HooksCurrentCondition.
	DeprecatedHooksReason = "DeprecatedHooks"

	// OverridesUsedCondition is False on an ExtensionConfig with an annotation that overrides a handler which does not
	// exist. Without such an annotation, the condition is absent.
	OverridesUsedCondition = "OverridesUsed"
	// NoSuchHandlerReason is the reason of OverridesUsedCondition.
	NoSuchHandlerReason = "NoSuchHandler"
)

// maxMessage bounds messages in bytes; the API allows 32 KiB.
const maxMessage = 8 << 10

func setDiscovered(config *runtimev1.ExtensionConfig, err error) {
	condition := metav1.Condition{
		Type: runtimev1.ExtensionConfigDiscoveredCondition, Status: metav1.ConditionTrue,
		Reason: runtimev1.ExtensionConfigDiscoveredReason,
	}
	//lint:ignore SA1019 clients of v1alpha1 still read it
	older := clusterv1.Condition{Type: runtimev1.RuntimeExtensionDiscoveredV1Beta1Condition, Status: corev1.ConditionTrue}
	if err != nil {
		condition.Status, condition.Reason, condition.Message =
			metav1.ConditionFalse, runtimev1.ExtensionConfigNotDiscoveredReason, clip(err.Error())
		older.Status, older.Severity = corev1.ConditionFalse, clusterv1.ConditionSeverityError
		older.Reason, older.Message = runtimev1.DiscoveryFailedV1Beta1Reason, condition.Message
	}
	set(config, condition)
	setOlder(config, older)
}

func setPaused(config *runtimev1.ExtensionConfig, paused bool) {
	condition := metav1.Condition{
		Type: clusterv1.PausedCondition, Status: metav1.ConditionFalse, Reason: clusterv1.NotPausedReason,
	}
	if paused {
		condition.Status, condition.Reason = metav1.ConditionTrue, clusterv1.PausedReason
		condition.Message = "ExtensionConfig has the cluster.x-k8s.io/paused annotation"
	}
	set(config, condition)
}

// setNotes sets the conditions that exist only when there is something to report.
func setNotes(catalog *hook.Catalog, config *runtimev1.ExtensionConfig) {
	note(config, HooksCurrentCondition, DeprecatedHooksReason,
		"Handlers serve versions of hooks that will be removed: ",
		deprecated(catalog, config.Status.Handlers))
	note(config, OverridesUsedCondition, NoSuchHandlerReason,
		"Annotations are for handlers that the extension does not have: ", unusedOverrides(config))
}

func note(config *runtimev1.ExtensionConfig, condition, reason, text string, about []string) {
	if len(about) == 0 {
		meta.RemoveStatusCondition(&config.Status.Conditions, condition)
		return
	}
	set(config, metav1.Condition{
		Type: condition, Status: metav1.ConditionFalse, Reason: reason, Message: clip(text + strings.Join(about, ", ")),
	})
}

// deprecated names the handlers of deprecated versions, with advice for each.
func deprecated(catalog *hook.Catalog, handlers []runtimev1.ExtensionHandler) []string {
	var found []string
	for _, h := range handlers {
		gv, err := schema.ParseGroupVersion(h.RequestHook.APIVersion)
		if err != nil {
			continue
		}
		if advice := catalog.Facts(hook.ID{Group: gv.Group, Version: gv.Version, Name: h.RequestHook.Hook}).
			Advice(); advice != "" {
			found = append(found, fmt.Sprintf("%s (%s/%s is %s)", h.Name, h.RequestHook.APIVersion, h.RequestHook.Hook, advice))
		}
	}
	slices.Sort(found) // the message must not depend on the order of the answer
	return found
}

func unusedOverrides(config *runtimev1.ExtensionConfig) []string {
	overrides, err := registry.ReadOverrides(config.Annotations)
	if err != nil {
		return nil // reported elsewhere
	}
	names := make([]string, len(config.Status.Handlers))
	for i, h := range config.Status.Handlers {
		names[i] = strings.TrimSuffix(h.Name, "."+config.Name)
	}
	return overrides.Unused(names)
}

func set(config *runtimev1.ExtensionConfig, condition metav1.Condition) {
	condition.ObservedGeneration = config.Generation
	meta.SetStatusCondition(&config.Status.Conditions, condition)
}

// setOlder sets a condition of the previous contract, which clients of v1alpha1 still read.
//
//lint:ignore SA1019 its type is as old as its readers
func setOlder(config *runtimev1.ExtensionConfig, condition clusterv1.Condition) {
	conditions := config.GetV1Beta1Conditions()
	condition.LastTransitionTime = metav1.Now().Rfc3339Copy()
	for i := range conditions {
		if conditions[i].Type != condition.Type {
			continue
		}
		if conditions[i].Status == condition.Status {
			condition.LastTransitionTime = conditions[i].LastTransitionTime
		}
		conditions[i] = condition
		config.SetV1Beta1Conditions(conditions)
		return
	}
	config.SetV1Beta1Conditions(append(conditions, condition))
}

func clip(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage], "") + "…"
}
