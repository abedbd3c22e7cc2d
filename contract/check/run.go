package check

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/contract/source"
)

// Finding is one place where a rule is broken. Its JSON form is stable.
type Finding struct {
	// Check and Rule name what was broken, Level says how binding the rule is, and Contract is the version that has the
	// rule.
	Check    string `json:"check"`
	Rule     string `json:"rule"`
	Level    Level  `json:"level"`
	Contract string `json:"contract,omitempty"`
	// Position is the place in the file.
	source.Position
	// Object is the kind and name, Field the path of the field. Both are empty if the finding is about the whole file;
	// Field is empty if it is about the whole object.
	Object string `json:"object,omitempty"`
	Field  string `json:"field,omitempty"`
	// Message says what is wrong, Why says what that causes, and Fix says how to fix it. Link is the page of the book with
	// the rule.
	Message string `json:"message"`
	Why     string `json:"why"`
	Fix     string `json:"fix"`
	Link    string `json:"link"`
	// Edit is the fix, if the check can compute it; else it is zero.
	Edit source.Edit `json:"edit,omitzero"`
}

// Key identifies a finding even when lines move. A baseline names findings by it.
func (f Finding) Key() string {
	return strings.Join([]string{f.Check, f.Rule, f.Contract, f.Object, f.Field}, " | ")
}

// Skipped is a check that did not run over a release, because the release lacks something the check needs.
type Skipped struct {
	Check   string `json:"check"`
	Release string `json:"release"`
	Missing Need   `json:"missing"`
}

// What can verify a rule that files cannot show.
const (
	ByRunning = "a running provider"
	ByReading = "the provider's documents and code"
)

// Live is a rule that no check of files can verify.
type Live struct {
	Rule  string `json:"rule"`
	Level Level  `json:"level"`
	// By is what verifies the rule.
	By   string `json:"by"`
	Text string `json:"text"`
	// Why is the reason that no check of files verifies a rule that files could show. It is empty for other rules.
	Why string `json:"why,omitempty"`
	// Checks are the live checks that verify the rule, Sequences the catalogue's behaviour tests for it.
	Checks    []string `json:"checks,omitempty"`
	Sequences []string `json:"sequences,omitempty"`
}

// Source is the value of Check in a [Failure] which says that a release could not be read.
const Source = "source"

// Failure is a check that itself failed, which is a mistake of its author, not of the provider. If Check is [Source],
// the failure says which part of a release could not be read.
type Failure struct {
	Check   string `json:"check"`
	Release string `json:"release"`
	Message string `json:"message"`
}

// String says what failed.
func (f Failure) String() string {
	if f.Check == Source {
		return f.Release + ": " + f.Message
	}
	return fmt.Sprintf("%s: the check %s itself failed: %s", f.Release, f.Check, f.Message)
}

// Report is the result of a run. Its JSON form is stable.
type Report struct {
	// Tool is the command that made the report. Empty means capstan verify.
	Tool string `json:"tool,omitempty"`
	// Releases are the paths of the releases checked, or the names of what another tool checked.
	Releases []string `json:"releases"`
	// Checks is the number of checks that ran over at least one release.
	Checks int `json:"checks"`
	// Findings are sorted by position and never nil.
	Findings []Finding `json:"findings"`
	// Skipped and Failures list what could not be checked.
	Skipped  []Skipped `json:"skipped,omitempty"`
	Failures []Failure `json:"failures,omitempty"`
	// Live are the rules that files cannot show. Run leaves it empty; the caller, which has the catalogue, sets it.
	Live []Live `json:"live,omitempty"`
}

// Run runs checks over releases. The releases in before are older: each release is compared with the older release
// of the same provider.
func Run(checks []*Check, releases []*source.Release, before ...*source.Release) *Report {
	return run(context.Background(), nil, checks, releases, before)
}

// run runs checks. If driver is nil, it skips live checks.
func run(ctx context.Context, driver Driver, checks []*Check, releases, before []*source.Release) *Report {
	report := &Report{Findings: []Finding{}}
	ran := map[string]bool{}
	for _, release := range releases {
		report.Releases = append(report.Releases, release.Path)
		if release.Problem != nil {
			report.Failures = append(report.Failures, Failure{Source, release.Path, release.Problem.Error()})
		}
		older := olderOf(release, before)
		for _, c := range checks {
			lacks := func(n Need) bool {
				switch n {
				case Before:
					return older == nil
				case Installed:
					return driver == nil
				}
				return !has(release, n)
			}
			if missing := slices.IndexFunc(c.Needs, lacks); missing >= 0 {
				report.Skipped = append(report.Skipped, Skipped{c.ID, release.Path, c.Needs[missing]})
				continue
			}
			ran[c.ID] = true
			findings, err := c.runOne(ctx, driver, release, older)
			report.Findings = append(report.Findings, findings...)
			if err != nil {
				report.Failures = append(report.Failures, Failure{c.ID, release.Path, err.Error()})
			}
		}
	}
	report.Checks = len(ran)
	slices.SortStableFunc(report.Findings, func(a, b Finding) int {
		return cmp.Or(a.Position.Compare(b.Position), strings.Compare(a.Key(), b.Key()),
			strings.Compare(a.Message, b.Message))
	})
	report.Findings = slices.Compact(report.Findings)
	return report
}

// Fix applies the edits of all findings and returns how many it applied.
func (r *Report) Fix() (int, error) {
	edits := make([]source.Edit, 0, len(r.Findings))
	for _, f := range r.Findings {
		edits = append(edits, f.Edit)
	}
	return source.Apply(edits)
}

// olderOf returns the older release with the same provider label. If there is none, it returns the only release of the
// same type that may be the same provider's, or nil.
func olderOf(release *source.Release, before []*source.Release) *source.Release {
	for _, older := range before {
		if release.Label != "" && older.Label == release.Label {
			return older
		}
	}
	var found *source.Release
	for _, older := range before {
		if older.Type() != release.Type() || older.Label != "" && release.Label != "" {
			continue
		}
		if found != nil {
			return nil // ambiguous
		}
		found = older
	}
	return found
}

// runOne runs a check. If the check panics, the findings that it reported before stay in the report.
func (c *Check) runOne(ctx context.Context, driver Driver, release, older *source.Release) (
	findings []Finding, err error,
) {
	pass := &Pass{Check: c, Release: release, Before: older}
	defer func() {
		findings = pass.findings
		if r := recover(); r != nil {
			err = fmt.Errorf("the check panicked: %v\n%s", r, debug.Stack())
		}
	}()
	if c.Drive != nil {
		c.Drive(ctx, pass, driver)
	} else {
		c.Run(pass)
	}
	return pass.findings, pass.err
}

// Pass is one run of a check over a release.
type Pass struct {
	Check   *Check
	Release *source.Release
	// Before is the older release. It is nil unless the check needs one.
	Before *source.Release

	findings []Finding
	err      error
}

// Broken reports a rule as broken in a field of an object. Contract is empty if the rule is the same in all versions.
func (p *Pass) Broken(rule, contract string, o *source.Object, path []string, format string, args ...any) {
	p.add(Finding{
		Rule: rule, Contract: contract, Position: o.At(path...), Object: o.String(), Field: strings.Join(path, "."),
	}, format, args...)
}

// BrokenAt reports a rule as broken at a position.
func (p *Pass) BrokenAt(rule string, at source.Position, format string, args ...any) {
	p.add(Finding{Rule: rule, Position: at}, format, args...)
}

// Replace adds a fix to the last finding reported: a new value, as YAML, for a field.
func (p *Pass) Replace(o *source.Object, path []string, value string) {
	if n := len(p.findings); n > 0 {
		p.findings[n-1].Edit = o.Edit(path, value)
	}
}

func (p *Pass) add(f Finding, format string, args ...any) {
	if !slices.Contains(p.Check.Rules, f.Rule) && p.err == nil {
		p.err = fmt.Errorf("the check reports rule %s, which it does not name", f.Rule)
	}
	f.Check, f.Level, f.Why, f.Fix, f.Link = p.Check.ID, p.Check.Level, p.Check.Why, p.Check.Fix, p.Check.Link()
	f.Message = fmt.Sprintf(format, args...)
	p.findings = append(p.findings, f)
}

// Definitions returns the definitions in all components.
func (p *Pass) Definitions() []*source.Definition { return p.Release.Definitions() }
