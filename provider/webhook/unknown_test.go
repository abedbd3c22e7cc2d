package webhook_test

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestAnUnknownFieldIsNamed checks the exact refusal of a report with fields that the definition doesn't have. An agent
// recognizes it and then reports less (agent/rest).
func TestAnUnknownFieldIsNamed(t *testing.T) {
	host := created(t, object("v1beta2", "CapstanHost", "unknown", map[string]any{"zone": "z"}))
	report := object("v1beta2", "CapstanHost", "unknown", nil)
	set(t, report, map[string]any{"bootID": "b", "shoeSize": int64(42)}, "status", "agent")
	apply := func() error {
		return live.api.Status().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(report.DeepCopy()),
			client.FieldOwner("capstan-agent"), client.ForceOwnership)
	}
	refused(t, apply(), "shoeSize", "field not declared in schema")
	set(t, report, map[string]any{"bootID": "b"}, "status", "agent")
	must(t, apply())
	if got := as(t, "v1beta2", host); got.Object["status"] == nil {
		t.Error("the report was not stored")
	}
}
