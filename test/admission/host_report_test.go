//go:build linux

package admission

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// agentManager is the fieldManager of agents.
const agentManager = "capstan-agent"

// statusPatch applies a patch to the status of a host.
func statusPatch(
	t *testing.T, who client.Client, h *infrav1.CapstanHost, kind types.PatchType, body string,
	options ...client.SubResourcePatchOption,
) error {
	t.Helper()
	object := &infrav1.CapstanHost{}
	object.Namespace, object.Name = h.Namespace, h.Name
	return who.Status().Patch(t.Context(), object, client.RawPatch(kind, []byte(body)), options...)
}

// report applies an agent's report to the status of a host, like the agent.
func report(t *testing.T, who client.Client, h *infrav1.CapstanHost, agent string) error {
	t.Helper()
	body := fmt.Sprintf(`{"apiVersion":"infrastructure.capstan.dev/v1beta2","kind":"CapstanHost",
		"metadata":{"name":%q,"namespace":%q},"status":{"agent":%s}}`, h.Name, h.Namespace, agent)
	return statusPatch(t, who, h, types.ApplyPatchType, body, client.FieldOwner(agentManager), client.ForceOwnership)
}

// condition is a condition in JSON.
func condition(kind, status string) string {
	return fmt.Sprintf(`{"type":%q,"status":%q,"reason":"R","message":"m","lastTransitionTime":"2026-01-01T00:00:00Z"}`,
		kind, status)
}

const merge = types.MergePatchType

// TestHostsReportAndNothingElse: with its token, a host can write status.agent. Writing other fields of the status is
// refused, although RBAC allows it.
func TestHostsReportAndNothingElse(t *testing.T) {
	ns := namespace(t)
	h, user := host(t, ns, "h1")
	agent, m := as(t, user), as(t, manager)
	must(t, statusPatch(t, m, h, merge, `{"status":{"phase":"Available","kubernetesVersions":["v1.36.3"],"conditions":[`+
		condition("Ready", "True")+`]}}`))
	must(t, report(t, agent, h, `{"version":"v1","bootstrap":{"providerID":"capstan://x","phase":"Running"}}`))

	ready := condition("Ready", "True")
	for name, body := range map[string]string{
		"another condition":               `{"status":{"conditions":[` + ready + `,` + condition("X", "True") + `]}}`,
		"a condition with another status": `{"status":{"conditions":[` + condition("Ready", "False") + `]}}`,
		"no conditions":                   `{"status":{"conditions":null}}`,
		"another phase":                   `{"status":{"phase":"Off"}}`,
		"no phase":                        `{"status":{"phase":null}}`,
		"other versions":                  `{"status":{"kubernetesVersions":["v9.9.9"]}}`,
		"no versions":                     `{"status":{"kubernetesVersions":null}}`,
		"an empty status":                 `{"status":null}`,
		"a report and another phase":      `{"status":{"agent":{"version":"v2"},"phase":"Off"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, statusPatch(t, agent, h, merge, body, client.FieldOwner(agentManager)), "status.agent")
		})
		t.Run(name+", by the manager", func(t *testing.T) {
			must(t, statusPatch(t, m, h, merge, body, client.DryRunAll))
		})
	}
	t.Run("as another field manager", func(t *testing.T) {
		refused(t, statusPatch(t, agent, h, merge, `{"status":{"agent":{"version":"v3"}}}`), "capstan-agent")
		refused(t, statusPatch(t, agent, h, merge, `{"status":{"agent":{"version":"v3"}}}`, client.FieldOwner("x")))
	})
	t.Run("another host's report", func(t *testing.T) {
		other, _ := host(t, ns, "h2")
		refused(t, report(t, agent, other, `{"version":"v1"}`))
	})
	t.Run("metadata and spec stay, whatever the request says", func(t *testing.T) {
		body := `{"metadata":{"labels":{"a":"b"},"annotations":{"a":"b"},"finalizers":["x/y"],
			"ownerReferences":[{"apiVersion":"v1","kind":"Secret","name":"x","uid":"x"}]},
			"spec":{"zone":"b","unschedulable":true},"status":{"agent":{"version":"v4"}}}`
		must(t, statusPatch(t, agent, h, merge, body, client.FieldOwner(agentManager)))
		now := get(t, h)
		if now.Status.Agent.Version != "v4" || len(now.Labels)+len(now.Annotations)+len(now.Finalizers) > 0 ||
			len(now.OwnerReferences) > 0 || now.Spec.Zone != "a" || now.Spec.Unschedulable {
			t.Errorf("the report changed metadata or spec, or was not stored: %+v", now)
		}
	})
	t.Run("a report can be removed", func(t *testing.T) {
		must(t, statusPatch(t, agent, h, merge, `{"status":{"agent":null}}`, client.FieldOwner(agentManager)))
		must(t, report(t, agent, h, `{"version":"v1"}`))
	})
}

// get reads a host.
func get(t *testing.T, h *infrav1.CapstanHost) *infrav1.CapstanHost {
	t.Helper()
	now := &infrav1.CapstanHost{}
	must(t, admin.Get(t.Context(), client.ObjectKeyFromObject(h), now))
	return now
}

// TestManagedFieldsDoNotGrow: the API server ignores metadata.managedFields that a host sends with its status.
func TestManagedFieldsDoNotGrow(t *testing.T) {
	h, user := host(t, namespace(t), "h1")
	agent := as(t, user)
	must(t, report(t, agent, h, `{"version":"v1"}`))
	entries := func(manager string, n, length int) string {
		fields := map[string]any{}
		for i := range n {
			fields[fmt.Sprintf("f:%04d%s", i, strings.Repeat("x", length))] = map[string]any{}
		}
		data, err := json.Marshal([]any{map[string]any{
			"manager": manager, "operation": "Apply", "apiVersion": "infrastructure.capstan.dev/v1beta2",
			"fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:status": map[string]any{"f:agent": fields}},
			"time": "2026-01-01T00:00:00Z", "subresource": "status",
		}})
		must(t, err)
		return string(data)
	}
	deep := `[{"manager":"capstan-agent","operation":"Apply","apiVersion":"infrastructure.capstan.dev/v1beta2",
		"fieldsType":"FieldsV1","fieldsV1":{"f:a":{"f:b":{"f:c":{"f:d":{"f:e":{}}}}}},"subresource":"status"}]`
	for name, fields := range map[string]string{
		"many fields": entries(agentManager, 2000, 10), "long names": entries(agentManager, 4, 5000), "deep fields": deep,
		"half a megabyte": entries("x", 5000, 100),
	} {
		t.Run(name, func(t *testing.T) {
			body := `{"metadata":{"managedFields":` + fields + `},"status":{"agent":{"version":"v2"}}}`
			must(t, statusPatch(t, agent, h, merge, body, client.FieldOwner(agentManager)))
			data, err := json.Marshal(get(t, h).ManagedFields)
			must(t, err)
			if len(data) > 2<<10 || strings.Contains(string(data), "f:a\"") {
				t.Errorf("the managed fields that the host sent are stored, %d bytes: %.500s", len(data), data)
			}
		})
	}
}
