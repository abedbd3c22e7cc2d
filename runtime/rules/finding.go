package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity is how bad a finding is.
type Severity string

// The severities.
const (
	// Break is a change that makes extensions fail or misbehave although they work today.
	Break Severity = "break"
	// Warning is a change that careful extensions survive, or a rule that can't be decided with the available facts.
	Warning Severity = "warning"
)

// Finding is one change that is relevant to a rule.
type Finding struct {
	// Rule is the id of the rule.
	Rule string `json:"rule"`
	// Severity of the finding.
	Severity Severity `json:"severity"`
	// Hooks that are affected, as "group/version/Name", sorted.
	Hooks []string `json:"hooks"`
	// Path to the change, for example "request.cluster.spec.paused"; empty if it is the hook itself.
	Path string `json:"path,omitempty"`
	// Message says what changed.
	Message string `json:"message"`
}

// HookNames returns the names of at most three hooks, and how many more there are.
func (f Finding) HookNames() string {
	names := make([]string, len(f.Hooks))
	for i, h := range f.Hooks {
		names[i] = h[strings.LastIndex(h, "/")+1:]
	}
	if len(names) > 3 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:2], ","), len(names)-2)
	}
	return strings.Join(names, ",")
}

// String returns the finding in one line.
func (f Finding) String() string {
	hooks := ""
	for i, h := range f.Hooks {
		if i > 0 {
			hooks += ", "
		}
		hooks += h[strings.LastIndex(h, "/")+1:]
	}
	where := hooks
	if f.Path != "" {
		where += ": " + f.Path
	}
	return fmt.Sprintf("%s %s %s: %s", f.Severity, f.Rule, where, f.Message)
}

// Breaks reports whether one of the findings is a break.
func Breaks(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Severity == Break })
}

// merge joins findings that differ only in their hooks, because many hooks share types.
func merge(findings []Finding) []Finding {
	type key struct {
		rule, path, message string
		severity            Severity
	}
	hooks := map[key][]string{}
	for _, f := range findings {
		k := key{f.Rule, f.Path, f.Message, f.Severity}
		hooks[k] = append(hooks[k], f.Hooks...)
	}
	merged := make([]Finding, 0, len(hooks))
	for k, names := range hooks {
		slices.Sort(names)
		merged = append(merged, Finding{
			Rule: k.rule, Severity: k.severity, Hooks: slices.Compact(names), Path: k.path, Message: k.message,
		})
	}
	slices.SortFunc(merged, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Severity, b.Severity), slices.Compare(a.Hooks, b.Hooks), cmp.Compare(a.Path, b.Path),
			cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Message, b.Message))
	})
	return merged
}
