package rules

import (
	"cmp"
	"fmt"
	"slices"

	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/runtime/schema"
)

// Impact is what a planned upgrade means for one handler of an installed extension.
type Impact struct {
	// Extension is the name of its ExtensionConfig.
	Extension string `json:"extension"`
	// Handler is the handler's name in the ExtensionConfig.
	Handler string `json:"handler"`
	// Hook that the handler serves, as "group/version/Name".
	Hook string `json:"hook"`
	// Verdict is Break if the handler stops working or may misbehave, Warning if its author should check it, empty if
	// nothing changes for it.
	Verdict Severity `json:"verdict,omitempty"`
	// Findings are the changes of the handler's hook.
	Findings []Finding `json:"findings,omitempty"`
}

// Why returns the first finding, and how many more there are; empty if nothing changes for the handler.
func (i Impact) Why() string {
	if len(i.Findings) == 0 {
		return ""
	}
	why := i.Findings[0].Message
	if path := i.Findings[0].Path; path != "" {
		why = path + ": " + why
	}
	if more := len(i.Findings) - 1; more > 0 {
		why += fmt.Sprintf(" (and %d more)", more)
	}
	return why
}

// Preflight returns what an upgrade from one release to another means for installed extensions (RC-23). It uses the
// handlers in the status of their ExtensionConfigs. The result is sorted by extension and handler.
func Preflight(installed []runtimev1.ExtensionConfig, before, planned *schema.Document, releases Releases) []Impact {
	changes := Compare(before, planned, releases)
	var impacts []Impact
	for _, config := range installed {
		for _, h := range config.Status.Handlers {
			name := h.RequestHook.APIVersion + "/" + h.RequestHook.Hook
			impacts = append(impacts, impactOf(Impact{Extension: config.Name, Handler: h.Name, Hook: name}, changes, planned))
		}
	}
	slices.SortFunc(impacts, func(a, b Impact) int {
		return cmp.Or(cmp.Compare(a.Extension, b.Extension), cmp.Compare(a.Handler, b.Handler))
	})
	return impacts
}

func impactOf(impact Impact, changes []Finding, planned *schema.Document) Impact {
	for _, change := range changes {
		if slices.Contains(change.Hooks, impact.Hook) {
			change.Hooks = []string{impact.Hook}
			impact.Findings = append(impact.Findings, change)
		}
	}
	if planned.Hooks[impact.Hook] == nil && !Breaks(impact.Findings) {
		// Even a removal that the rules allow stops this handler from working.
		impact.Findings = append(impact.Findings, Finding{
			Rule: "RC-23", Severity: Break, Hooks: []string{impact.Hook},
			Message: "the planned release does not call this version of the hook",
		})
	}
	switch {
	case Breaks(impact.Findings):
		impact.Verdict = Break
	case len(impact.Findings) > 0:
		impact.Verdict = Warning
	}
	return impact
}
