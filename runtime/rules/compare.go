package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/schema"
)

// Releases identifies the newer release, for rule 4. With the zero value, nothing that depends on time is checked.
type Releases struct {
	// Now is the newer release.
	Now hook.Release
	// Day is the date of the newer release.
	Day time.Time
}

// Compare returns the changes between two releases that the rules forbid, or that authors of extensions should know
// about. Findings have a stable order, breaks first.
func Compare(before, now *schema.Document, releases Releases) []Finding {
	c := comparison{before: before, now: now, seen: map[pair][]Finding{}}
	var all []Finding
	for _, name := range before.HookNames() {
		old, current := before.Hooks[name], now.Hooks[name]
		if current == nil {
			all = append(all, c.removed(name, old, releases)...)
			continue
		}
		found := c.hook(old, current)
		for i := range found {
			found[i].Hooks = []string{name}
		}
		all = append(all, found...)
		if f, ok := c.deprecated(name, old, current); ok {
			all = append(all, f)
		}
	}
	return merge(all)
}

type comparison struct {
	before, now *schema.Document
	seen        map[pair][]Finding // findings of pairs of types, with relative paths
}

// direction says who writes a value: what is harmless in a request may be a break in a response.
type direction bool

const (
	request  direction = true  // written by callers
	response direction = false // written by extensions
)

type pair struct {
	before, now string
	direction   direction
}

// hook compares two releases of one version of a hook.
func (c *comparison) hook(before, now *schema.Hook) []Finding {
	var all []Finding
	if before.Blocking != now.Blocking {
		message := "the hook blocks now: answers of the older type have no retryAfterSeconds, and what waits on the hook " +
			"changes"
		if before.Blocking {
			message = "the hook no longer blocks: extensions that hold something back with it no longer do"
		}
		all = append(all, Finding{Rule: "RS-02", Severity: Break, Message: message})
	}
	all = append(all,
		under("request", c.types(&schema.Type{Ref: before.Request}, &schema.Type{Ref: now.Request}, request))...)
	changes := under("response", c.types(&schema.Type{Ref: before.Response}, &schema.Type{Ref: now.Response}, response))
	if before.Blocking != now.Blocking { // reported already
		changes = slices.DeleteFunc(changes, func(f Finding) bool { return f.Path == "response.retryAfterSeconds" })
	}
	return append(all, changes...)
}

// types compares two types. The paths of its findings are relative to them.
func (c *comparison) types(before, now *schema.Type, d direction) []Finding {
	if before == nil || now == nil {
		return nil // part of a change that was already reported
	}
	key := pair{before.Ref, now.Ref, d}
	if before.Ref == "" || now.Ref == "" {
		return c.resolved(before, now, d)
	}
	if found, ok := c.seen[key]; ok {
		return found // also while it is being compared: a type may be recursive
	}
	c.seen[key] = nil
	found := c.resolved(c.before.Resolve(before), c.now.Resolve(now), d)
	if before.Ref != now.Ref && Breaks(found) {
		found = slices.Insert(found, 0, Finding{
			Rule: "RS-02", Severity: Break,
			Message: fmt.Sprintf("the type %s replaced %s within one version of the hook", now.Ref, before.Ref),
		})
	}
	c.seen[key] = found
	return found
}

func (c *comparison) resolved(before, now *schema.Type, d direction) []Finding {
	before, now = c.before.Resolve(before), c.now.Resolve(now)
	if before.Kind == schema.Any || now.Kind == schema.Any && d == request {
		if before.Kind != now.Kind {
			return []Finding{
				{Rule: "RS-01", Severity: Warning, Message: fmt.Sprintf("it was %s and is %s", describe(before), describe(now))},
			}
		}
		return nil
	}
	if now.Kind == schema.Any {
		return nil // callers accept more than before
	}
	if before.Kind != now.Kind || before.Format != now.Format {
		return []Finding{
			{Rule: "RS-01", Severity: Break, Message: fmt.Sprintf("it was %s and is %s", describe(before), describe(now))},
		}
	}
	found := enums(before.Enum, now.Enum, d)
	switch before.Kind {
	case schema.Array:
		found = append(found, under("[]", c.types(before.Items, now.Items, d))...)
	case schema.Map:
		found = append(found, under("{}", c.types(before.Items, now.Items, d))...)
	case schema.Object:
		found = append(found, c.fields(before, now, d)...)
	}
	return found
}

func (c *comparison) fields(before, now *schema.Type, d direction) []Finding {
	var found []Finding
	for _, name := range before.FieldNames() {
		old, current := before.Fields[name], now.Fields[name]
		switch {
		case current == nil:
			found = append(found, Finding{Rule: "RS-01", Severity: Break, Path: name, Message: "the field was removed"})
			continue
		case d == request && old.Required && !current.Required:
			found = append(found, Finding{
				Rule: "RS-02", Severity: Break, Path: name,
				Message: "the field is optional now: extensions that rely on it find nothing",
			})
		case d == response && !old.Required && current.Required:
			found = append(found, Finding{
				Rule: "RS-02", Severity: Break, Path: name,
				Message: "the field is required now: extensions that leave it out are refused",
			})
		}
		found = append(found, under(name, c.types(&old.Type, &current.Type, d))...)
	}
	for _, name := range now.FieldNames() {
		if before.Fields[name] == nil && now.Fields[name].Required {
			if d == response {
				found = append(found, Finding{
					Rule: "RS-04", Severity: Break, Path: name,
					Message: "a required field is new: extensions that do not know it are refused",
				})
			} else {
				found = append(found, Finding{
					Rule: "RS-03", Severity: Warning, Path: name,
					Message: "a required field is new: callers of the older release do not send it",
				})
			}
		}
	}
	return found
}

func enums(before, now []string, d direction) []Finding {
	var found []Finding
	if len(before) == 0 && len(now) == 0 {
		return nil
	}
	if len(before) == 0 {
		if d == response {
			return []Finding{
				{Rule: "RS-01", Severity: Break, Message: "only these values are allowed now: " + strings.Join(now, ", ")},
			}
		}
		return nil
	}
	if len(now) == 0 {
		if d == request {
			return []Finding{{Rule: "RS-02", Severity: Warning, Message: "any value is possible now"}}
		}
		return nil
	}
	for _, value := range before {
		if !slices.Contains(now, value) {
			found = append(found, Finding{
				Rule: "RS-01", Severity: Break, Message: fmt.Sprintf("the value %q was removed", value),
			})
		}
	}
	for _, value := range now {
		if d == request && !slices.Contains(before, value) {
			found = append(found, Finding{
				Rule: "RS-02", Severity: Warning,
				Message: fmt.Sprintf("the value %q is new: extensions meet a value that they do not know", value),
			})
		}
	}
	return found
}

// under prefixes the paths of findings.
func under(part string, findings []Finding) []Finding {
	below := make([]Finding, len(findings))
	for i, f := range findings {
		switch {
		case f.Path == "":
			f.Path = part
		case strings.HasPrefix(f.Path, "[") || strings.HasPrefix(f.Path, "{"):
			f.Path = part + f.Path
		default:
			f.Path = part + "." + f.Path
		}
		below[i] = f
	}
	return below
}

func describe(t *schema.Type) string {
	if t.Format != "" {
		return fmt.Sprintf("%s (%s)", t.Kind, t.Format)
	}
	return string(t.Kind)
}
