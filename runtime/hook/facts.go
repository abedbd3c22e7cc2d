package hook

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Facts describe one version of a hook: its purpose and its life cycle, but not its types. The zero value describes
// nothing and is not deprecated.
type Facts struct {
	// Summary says in one line when the hook is called.
	Summary string
	// Description is the full text. It may be Markdown.
	Description string
	// Tags group hooks in generated documents.
	Tags []string

	// Introduced is the first release that has this version.
	Introduced Release
	// Deprecated is the release that deprecated this version. Default: not deprecated.
	Deprecated Release
	// DeprecatedOn is the date of that release. Rule 4 counts its months from it. Default: unknown.
	DeprecatedOn time.Time
	// RemovedIn is the first release without this version. Default: not decided.
	RemovedIn Release
	// ReplacedBy is the version of the same hook that replaces this one, for example "v1beta1". Default: none.
	ReplacedBy string

	// Singleton means that an extension has at most one handler of the hook.
	Singleton bool
}

// IsDeprecated reports whether the version is deprecated.
func (f Facts) IsDeprecated() bool { return f.Deprecated != "" }

// Advice returns one sentence on what users of a deprecated version should do. It is empty for other versions.
func (f Facts) Advice() string {
	if !f.IsDeprecated() {
		return ""
	}
	text := "deprecated since " + string(f.Deprecated)
	if f.RemovedIn != "" {
		text += ", removed in " + string(f.RemovedIn)
	}
	if f.ReplacedBy != "" {
		text += "; use " + f.ReplacedBy
	}
	return text
}

// Release is a release of the project that publishes a hook, by major and minor number, for example "v1.14".
type Release string

// numbers returns the major and minor number.
func (r Release) numbers() (major, minor int, err error) {
	first, second, ok := strings.Cut(strings.TrimPrefix(string(r), "v"), ".")
	if !ok || !strings.HasPrefix(string(r), "v") {
		return 0, 0, fmt.Errorf("release %q is not valid: write it like v1.14", string(r))
	}
	major, majorErr := strconv.Atoi(first)
	minor, minorErr := strconv.Atoi(second)
	if majorErr != nil || minorErr != nil || major < 0 || minor < 0 {
		return 0, 0, fmt.Errorf("release %q is not valid: write it like v1.14", string(r))
	}
	return major, minor, nil
}

// Compare returns a negative number if the release came before the other, zero if they are equal, and a positive
// number if it came after. Invalid releases come first.
func (r Release) Compare(other Release) int {
	major, minor, err := r.numbers()
	otherMajor, otherMinor, otherErr := other.numbers()
	if err != nil || otherErr != nil {
		return cmp.Compare(boolToInt(err == nil), boolToInt(otherErr == nil))
	}
	return cmp.Or(cmp.Compare(major, otherMajor), cmp.Compare(minor, otherMinor))
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Stability is the maturity of a version: alpha, beta, or generally available.
type Stability int

// The levels of stability, in ascending order.
const (
	Alpha Stability = iota
	Beta
	Stable
)

// String returns "alpha", "beta" or "stable".
func (s Stability) String() string { return [...]string{"alpha", "beta", "stable"}[s] }

// StabilityOf derives the stability from a version's name: v1alpha1 is alpha, v1beta2 is beta, v1 is stable.
func StabilityOf(version string) Stability {
	switch {
	case strings.Contains(version, "alpha"):
		return Alpha
	case strings.Contains(version, "beta"):
		return Beta
	}
	return Stable
}

// Support is how long a deprecated version must stay: until both periods are over (RS-06).
type Support struct {
	// Releases is how many releases must still have the version after the one that deprecated it.
	Releases int
	// Months is how many months must pass after that release.
	Months int
}

// SupportOf returns the support that rule 4 requires.
func SupportOf(s Stability) Support {
	return [...]Support{Alpha: {0, 0}, Beta: {2, 6}, Stable: {3, 12}}[s]
}

// About registers facts about a hook that is in the same catalog.
func About(of interface{ Descriptor() *Descriptor }, facts Facts) Registration {
	return about{of: of, facts: facts}
}

type about struct {
	of    interface{ Descriptor() *Descriptor }
	facts Facts
}

func (a about) register(b *builder) error {
	if a.of == nil || a.of.Descriptor() == nil {
		return errors.New("hook.About got a hook without a name: make it with hook.Define or hook.Of")
	}
	id := a.of.Descriptor().ID
	if _, twice := b.catalog.facts[id]; twice {
		return fmt.Errorf("hook %s is described twice: call hook.About once", id)
	}
	facts := a.facts
	facts.Tags = slices.Clone(facts.Tags)
	b.catalog.facts[id] = facts
	return nil
}

// checkFacts checks that the facts are consistent, and that they follow rule 3 and the part of rule 4 that counts
// releases.
func (b *builder) checkFacts() []error {
	var errs []error
	for _, id := range sortedIDs(b.catalog.facts) {
		facts := b.catalog.facts[id]
		fail := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("hook %s: "+format, append([]any{id}, args...)...))
		}
		if _, known := b.catalog.byID[id]; !known {
			fail("it is described, but is not in the catalog: register it too")
		}
		for _, release := range []Release{facts.Introduced, facts.Deprecated, facts.RemovedIn} {
			if _, _, err := release.numbers(); release != "" && err != nil {
				fail("%w", err)
			}
		}
		if facts.IsDeprecated() && facts.Deprecated.Compare(facts.Introduced) < 0 {
			fail("it is deprecated in %s, before it was introduced in %s", facts.Deprecated, facts.Introduced)
		}
		if facts.RemovedIn != "" && !facts.IsDeprecated() && StabilityOf(id.Version) != Alpha {
			fail("it is removed in %s without having been deprecated (RS-06)", facts.RemovedIn)
		}
		if err := checkSupport(id, facts); err != nil {
			errs = append(errs, err)
		}
		if facts.ReplacedBy == "" {
			if facts.IsDeprecated() {
				fail("it is deprecated in %s without a replacement: set ReplacedBy (RS-05)", facts.Deprecated)
			}
			continue
		}
		by := ID{Group: id.Group, Version: facts.ReplacedBy, Name: id.Name}
		if _, known := b.catalog.byID[by]; !known || by == id {
			fail("it is replaced by %s, which is not another version in the catalog", by)
		} else if StabilityOf(by.Version) < StabilityOf(id.Version) {
			fail("it can't be replaced by %s, which is less stable (RS-05)", by)
		}
	}
	return errs
}

// checkSupport applies rule 4, counted in releases.
func checkSupport(id ID, facts Facts) error {
	major, deprecated, err := facts.Deprecated.numbers()
	removedMajor, removed, removedErr := facts.RemovedIn.numbers()
	if err != nil || removedErr != nil || major != removedMajor {
		return nil //nolint:nilerr // Not deprecated or not removed; a new major release may do what it likes with the old one's hooks.
	}
	need := SupportOf(StabilityOf(id.Version))
	if stays := removed - deprecated; stays < need.Releases {
		return fmt.Errorf("hook %s: it is deprecated in %s and removed in %s: a %s version stays for %d releases and %d "+
			"months (RS-06)",
			id, facts.Deprecated, facts.RemovedIn, StabilityOf(id.Version), need.Releases, need.Months)
	}
	return nil
}

// Facts returns the facts about a hook; the zero value if there are none.
func (c *Catalog) Facts(id ID) Facts { return c.facts[id] }

func sortedIDs[V any](m map[ID]V) []ID {
	ids := make([]ID, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b ID) int { return strings.Compare(a.String(), b.String()) })
	return ids
}

// IsNewest reports whether a version of a hook is the one that callers work with; requests and responses of older
// versions are converted (RS-17).
func (c *Catalog) IsNewest(id ID) bool { return c.byID[id] != nil && c.older[id] == nil }

// Versions returns all versions of a hook, sorted by name: the newest and those that convert to it.
func (c *Catalog) Versions(family Family) []*Descriptor {
	var versions []*Descriptor
	for _, d := range c.All() {
		if d.ID.Family() == family {
			versions = append(versions, d)
		}
	}
	return versions
}
