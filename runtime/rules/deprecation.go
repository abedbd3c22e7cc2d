package rules

import (
	"fmt"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/schema"
)

// removed checks a version of a hook that was removed (RS-01, RS-06).
func (c *comparison) removed(name string, old *schema.Hook, releases Releases) []Finding {
	finding := func(rule string, severity Severity, format string, args ...any) []Finding {
		return []Finding{{Rule: rule, Severity: severity, Hooks: []string{name}, Message: fmt.Sprintf(format, args...)}}
	}
	id := parseID(name)
	if !c.hasFamily(id) {
		return finding("RS-01", Break, "the hook was removed and no other version of it is there")
	}
	stability := hook.StabilityOf(id.Version)
	need := hook.SupportOf(stability)
	if need.Releases == 0 {
		return nil // an alpha version may be removed as soon as another version exists
	}
	if old.Deprecated == "" {
		return finding("RS-06", Break,
			"the %s version was removed without having been deprecated: it stays for %d releases and %d months after that",
			stability, need.Releases, need.Months)
	}
	stayed, err := releasesBetween(hook.Release(old.Deprecated), releases.Now)
	if err != nil {
		return finding("RS-06", Warning,
			"it was deprecated in %s and is gone: name the releases to decide whether that was long enough", old.Deprecated)
	}
	if stayed < need.Releases {
		return finding("RS-06", Break, "the %s version was deprecated in %s and is gone in %s: it stays for %d releases",
			stability, old.Deprecated, releases.Now, need.Releases)
	}
	since, err := time.Parse(time.DateOnly, old.DeprecatedOn)
	if err != nil || releases.Day.IsZero() {
		return finding("RS-06", Warning,
			"it was deprecated in %s and is gone: name the days of both releases to decide whether %d months have passed",
			old.Deprecated, need.Months)
	}
	if end := since.AddDate(0, need.Months, 0); releases.Day.Before(end) {
		return finding("RS-06", Break, "the %s version was deprecated on %s: it stays until %s", stability, old.DeprecatedOn,
			end.Format(time.DateOnly))
	}
	return nil
}

// deprecated checks a version that was deprecated since the older release: a version at least as stable must exist
// (RS-05).
func (c *comparison) deprecated(name string, old, now *schema.Hook) (Finding, bool) {
	if now.Deprecated == "" {
		return Finding{}, false
	}
	id := parseID(name)
	for _, other := range c.now.HookNames() {
		candidate := parseID(other)
		if candidate.Family() == id.Family() && candidate != id && c.now.Hooks[other].Deprecated == "" &&
			hook.StabilityOf(candidate.Version) >= hook.StabilityOf(id.Version) {
			if old.Deprecated != "" {
				return Finding{}, false
			}
			return Finding{
				Rule: "RS-05", Severity: Warning, Hooks: []string{name},
				Message: fmt.Sprintf("it has been deprecated since %s: use %s", now.Deprecated, candidate.Version),
			}, true
		}
	}
	return Finding{
		Rule: "RS-05", Severity: Break, Hooks: []string{name},
		Message: fmt.Sprintf("it has been deprecated since %s, but no other version is at least as stable", now.Deprecated),
	}, true
}

func (c *comparison) hasFamily(id hook.ID) bool {
	for _, name := range c.now.HookNames() {
		if parseID(name).Family() == id.Family() {
			return true
		}
	}
	return false
}

// releasesBetween returns the number of minor releases between two releases of the same major.
func releasesBetween(from, to hook.Release) (int, error) {
	var fromMajor, fromMinor, toMajor, toMinor int
	if _, err := fmt.Sscanf(string(from), "v%d.%d", &fromMajor, &fromMinor); err != nil {
		return 0, fmt.Errorf("reading release %q: %w", from, err)
	}
	if _, err := fmt.Sscanf(string(to), "v%d.%d", &toMajor, &toMinor); err != nil {
		return 0, fmt.Errorf("reading release %q: %w", to, err)
	}
	if fromMajor != toMajor {
		return 0, fmt.Errorf("releases %s and %s are of different majors", from, to)
	}
	return toMinor - fromMinor, nil
}

// parseID is the reverse of hook.ID.String.
func parseID(name string) hook.ID {
	rest, hookName := cutLast(name)
	group, version := cutLast(rest)
	return hook.ID{Group: group, Version: version, Name: hookName}
}

func cutLast(text string) (before, after string) {
	i := strings.LastIndex(text, "/")
	if i < 0 {
		return "", text
	}
	return text[:i], text[i+1:]
}
