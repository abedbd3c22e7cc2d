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

// Our own release breaks no rule, and no check is skipped over it.
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

	report := judge(t, write(t, directory, ours(t)))
	for _, s := range report.Skipped {
		t.Errorf("%s is not run: our release has no %s", s.Check, s.Missing)
	}
}

// The kustomize base that our components are made of breaks no rule either.
func TestOurBase(t *testing.T) {
	contract.Verify(t, "../../config/crd")
}

// Each rule that a check looks at has a mutant that breaks it. The check finds it, reports that rule with line and
// fix, and no other check finds anything, unless the table names it.
func TestMutants(t *testing.T) {
	files := ours(t)
	mutated := map[string]bool{}
	for i, m := range readMutants(t) {
		mutated[m.Check+" "+m.Rule] = true
		t.Run(fmt.Sprintf("%s breaks %s (%d)", m.Check, m.Rule, i+1), func(t *testing.T) {
			dir := m.Directory
			if dir == "" {
				dir = directory
			}
			changed, err := m.apply(files)
			if err != nil {
				t.Fatal(err)
			}
			m.judge(t, judge(t, write(t, dir, changed)))
		})
	}
	for _, c := range checks.All() {
		for _, rule := range c.Rules {
			if !mutated[c.ID+" "+rule] && withoutMutant[c.ID+" "+rule] == "" {
				t.Errorf("no mutant breaks %s for %s", rule, c.ID)
			}
		}
	}
}

// withoutMutant are rules of checks that no mutant breaks, with the reason.
var withoutMutant = map[string]string{
	"definition-metadata IMT-05": "the same code as IM-06, with another rule by role",
	"definition-metadata ICT-03": "the same code as IM-06, with another rule by role",
}

// judge fails the test unless the mutant was found by who must find it.
func (m mutant) judge(t *testing.T, report *check.Report) {
	t.Helper()
	found := false
	for _, f := range report.Findings {
		switch {
		case f.Check == m.Check && f.Rule == m.Rule:
			found = true
			if f.File == "" || f.Message == "" || f.Fix == "" || f.Link == "" || f.Object != "" && f.Line == 0 {
				t.Errorf("the finding lacks a place, a message or what to do: %+v", f)
			}
		case f.Check != m.Check && !slices.Contains(m.Also, f.Check):
			t.Errorf("%s finds it, too: %s: %s", f.Check, f.Position, f.Message)
		}
	}
	if !found {
		t.Errorf("%s does not find it, the findings are %+v", m.Check, report.Findings)
	}
	for _, id := range m.Also {
		if !slices.ContainsFunc(report.Findings, func(f check.Finding) bool { return f.Check == id }) {
			t.Errorf("%s does not find it, and the table says it does", id)
		}
	}
}

func judge(t *testing.T, dir string) *check.Report {
	t.Helper()
	releases, err := source.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	report := check.Run(checks.All(), releases)
	for _, f := range report.Failures {
		t.Errorf("%s failed itself: %s", f.Check, f.Message)
	}
	return report
}
