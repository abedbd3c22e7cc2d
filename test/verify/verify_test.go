package verify

import (
	"fmt"
	"slices"
	"testing"

	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/checks"
	"github.com/capstan-dev/capstan/contract/source"
	"github.com/capstan-dev/capstan/release"
)

// Our own release breaks no rule, and no check is skipped for it.
func TestOurRelease(t *testing.T) {
	made, err := release.Repository(release.Options{
		Version: version, ImagePrefix: "registry.example/capstan", Source: "../..",
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := release.Write(made, dir); err != nil {
		t.Fatal(err)
	}
	contract.Verify(t, dir)

	dir = write(t, directory, ours(t))
	report := judge(t, dir, dir)
	for _, f := range report.Findings {
		t.Errorf("compared with itself, our release has a finding: %s: %s", f.Position, f.Message)
	}
	for _, s := range report.Skipped {
		t.Errorf("check %s was skipped, because our release has no %s", s.Check, s.Missing)
	}
}

// The small providers of testdata break no rule before they are mutated, even compared with themselves.
func TestSmallProviders(t *testing.T) {
	for _, label := range []string{"control-plane-small", "bootstrap-small", "infrastructure-small"} {
		dir := write(t, label+"/v1.0.0", small(t, label))
		for _, f := range judge(t, dir, dir).Findings {
			t.Errorf("%s: %s %s (%s): %s", f.Position, f.Rule, f.Contract, f.Check, f.Message)
		}
	}
}

// The kustomize base of our components breaks no rule either.
func TestOurBase(t *testing.T) {
	contract.Verify(t, "../../config/crd")
}

// Each rule of a check has a mutant that breaks it. The check must find the mutant, and report that rule with a line
// and a fix. No other check finds anything, unless the table names it.
func TestMutants(t *testing.T) {
	bases := map[string]map[string]string{"": ours(t)}
	mutated, fixed := map[string]bool{}, map[string]bool{}
	for i, m := range readMutants(t) {
		mutated[m.Check+" "+m.Rule] = true
		t.Run(fmt.Sprintf("%s finds a mutant that breaks %s (%d)", m.Check, m.Rule, i+1), func(t *testing.T) {
			if bases[m.Release] == nil {
				bases[m.Release] = small(t, m.Release)
			}
			dir := directory
			switch {
			case m.Directory != "":
				dir = m.Directory
			case m.Release != "":
				dir = m.Release + "/v1.0.0"
			}
			changed, err := m.apply(bases[m.Release])
			if err != nil {
				t.Fatal(err)
			}
			var before []string
			if m.Against {
				before = append(before, write(t, dir, bases[m.Release]))
			}
			dir = write(t, dir, changed)
			report := judge(t, dir, before...)
			m.judge(t, report)
			m.fix(t, dir, report, fixed)
		})
	}
	for _, c := range checks.All() {
		if c.Fixes != fixed[c.ID] {
			t.Errorf("check %s declares fixes: %v; it had fixes for mutants: %v", c.ID, c.Fixes, fixed[c.ID])
		}
		for _, rule := range c.Rules {
			if !mutated[c.ID+" "+rule] && withoutMutant[c.ID+" "+rule] == "" {
				t.Errorf("no mutant breaks rule %s for check %s", rule, c.ID)
			}
		}
	}
}

// withoutMutant lists rules of checks that no mutant breaks, with the reason.
var withoutMutant = map[string]string{
	"definition-metadata IMT-05": "the code for IM-06 checks it for templates of InfraMachines",
	"definition-metadata ICT-03": "the code for IM-06 checks it for templates of InfraClusters",
	"release-names CT-37":        "the code for CT-38 checks it for another type of provider",
	"release-names CT-41":        "the code for CT-38 checks it for another type of provider",
	"release-names CT-42":        "the code for CT-38 checks it for another type of provider",
	"release-names CT-43":        "the code for CT-38 checks it for another type of provider",
}

// judge fails the test unless the right check found the mutant.
func (m mutant) judge(t *testing.T, report *check.Report) {
	t.Helper()
	found := false
	for _, f := range report.Findings {
		switch {
		case f.Check == m.Check && f.Rule == m.Rule:
			found = true
			if f.File == "" || f.Message == "" || f.Fix == "" || f.Link == "" || f.Object != "" && f.Line == 0 {
				t.Errorf("the finding lacks a file, a line, a message, a fix or a link: %+v", f)
			}
		case f.Check != m.Check && !slices.Contains(m.Also, f.Check):
			t.Errorf("check %s has a finding, too: %s: %s", f.Check, f.Position, f.Message)
		}
	}
	if !found {
		t.Errorf("check %s does not find the mutant; the findings are %+v", m.Check, report.Findings)
	}
	for _, id := range m.Also {
		if !slices.ContainsFunc(report.Findings, func(f check.Finding) bool { return f.Check == id }) {
			t.Errorf("check %s does not find the mutant, but the table says that it does", id)
		}
	}
}

// fix applies the fixes of a report. Afterwards, a check must no longer report what it had a fix for.
func (m mutant) fix(t *testing.T, dir string, report *check.Report, fixed map[string]bool) {
	t.Helper()
	mended := map[string]bool{}
	for _, f := range report.Findings {
		if !f.Edit.IsZero() {
			mended[f.Key()], fixed[f.Check] = true, true
		}
	}
	if len(mended) == 0 {
		return
	}
	if made, err := report.Fix(); err != nil || made < 1 {
		t.Errorf("%d of %d fixes were made: %v", made, len(mended), err)
	}
	for _, f := range judge(t, dir).Findings {
		if mended[f.Key()] {
			t.Errorf("after its fix, check %s still has the finding: %s", f.Check, f.Message)
		}
	}
}

func judge(t *testing.T, dir string, before ...string) *check.Report {
	t.Helper()
	releases, err := source.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	var older []*source.Release
	for _, path := range before {
		found, err := source.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		older = append(older, found...)
	}
	report := check.Run(checks.All(), releases, older...)
	for _, f := range report.Failures {
		t.Errorf("check %s itself failed: %s", f.Check, f.Message)
	}
	return report
}
