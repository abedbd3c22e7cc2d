package check

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/contract/source"
)

// Finding is one place where a rule is broken. Its JSON form is stable.
type Finding struct {
	// Check and Rule are what found it, Level how binding the rule is, Contract the version that has it.
	Check    string `json:"check"`
	Rule     string `json:"rule"`
	Level    Level  `json:"level"`
	Contract string `json:"contract,omitempty"`
	// Position is where to look.
	source.Position
	// Object is kind and name, Field the path of the field. Empty: the finding is about the whole file or object.
	Object string `json:"object,omitempty"`
	Field  string `json:"field,omitempty"`
	// Message says what is wrong, Why what it leads to, Fix what to do, Link where the book has the rule.
	Message string `json:"message"`
	Why     string `json:"why"`
	Fix     string `json:"fix"`
	Link    string `json:"link"`
}

// Key identifies a finding when lines move: a baseline names findings by it.
func (f Finding) Key() string {
	return strings.Join([]string{f.Check, f.Rule, f.Contract, f.Object, f.Field}, " | ")
}

// Skipped is a check that was not run over a release, because the release does not have what it needs.
type Skipped struct {
	Check   string `json:"check"`
	Release string `json:"release"`
	Missing Need   `json:"missing"`
}

// Source is what stands in the place of a check in a failure to read a release.
const Source = "source"

// Failure is a check that failed itself: its author's mistake, not the provider's. With [Source] as check it says what
// of a release could not be read.
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
	return fmt.Sprintf("%s: the check %s failed itself: %s", f.Release, f.Check, f.Message)
}

// Report is what a run found. Its JSON form is stable.
type Report struct {
	// Releases are the paths of what was judged.
	Releases []string `json:"releases"`
	// Checks is how many checks ran over at least one release.
	Checks int `json:"checks"`
	// Findings are never nil, by position.
	Findings []Finding `json:"findings"`
	// Skipped and Failures are what was not judged.
	Skipped  []Skipped `json:"skipped,omitempty"`
	Failures []Failure `json:"failures,omitempty"`
}

// Run runs checks over releases.
func Run(checks []*Check, releases []*source.Release) *Report {
	report := &Report{Findings: []Finding{}}
	ran := map[string]bool{}
	for _, release := range releases {
		report.Releases = append(report.Releases, release.Path)
		if release.Problem != nil {
			report.Failures = append(report.Failures, Failure{Source, release.Path, release.Problem.Error()})
		}
		for _, c := range checks {
			if missing := slices.IndexFunc(c.Needs, func(n Need) bool { return !has(release, n) }); missing >= 0 {
				report.Skipped = append(report.Skipped, Skipped{c.ID, release.Path, c.Needs[missing]})
				continue
			}
			ran[c.ID] = true
			findings, err := runOne(c, release)
			report.Findings = append(report.Findings, findings...)
			if err != nil {
				report.Failures = append(report.Failures, Failure{c.ID, release.Path, err.Error()})
			}
		}
	}
	report.Checks = len(ran)
	slices.SortStableFunc(report.Findings, func(a, b Finding) int {
		return cmp.Or(a.Position.Compare(b.Position), strings.Compare(a.Key(), b.Key()))
	})
	report.Findings = slices.Compact(report.Findings)
	return report
}

// runOne runs a check. What it found before it panicked counts.
func runOne(c *Check, release *source.Release) (findings []Finding, err error) {
	pass := &Pass{Check: c, Release: release}
	defer func() {
		findings = pass.findings
		if r := recover(); r != nil {
			err = fmt.Errorf("the check panicked: %v\n%s", r, debug.Stack())
		}
	}()
	c.Run(pass)
	return pass.findings, pass.err
}

// Pass is one run of a check over a release.
type Pass struct {
	Check   *Check
	Release *source.Release

	findings []Finding
	err      error
}

// Broken says that a rule is broken in a field of an object. Contract is empty if the rule is the same in all.
func (p *Pass) Broken(rule, contract string, o *source.Object, path []string, format string, args ...any) {
	p.add(Finding{
		Rule: rule, Contract: contract, Position: o.At(path...), Object: o.String(), Field: strings.Join(path, "."),
	}, format, args...)
}

// BrokenAt says that a rule is broken at a position.
func (p *Pass) BrokenAt(rule string, at source.Position, format string, args ...any) {
	p.add(Finding{Rule: rule, Position: at}, format, args...)
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
func (p *Pass) Definitions() []*source.Definition {
	var all []*source.Definition
	for _, f := range p.Release.Of(source.Components) {
		all = append(all, f.Definitions()...)
	}
	return all
}
