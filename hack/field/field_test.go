package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/checks"
)

const dataFile = "../../test/verify/testdata/field.yaml"

// TestField: the file is complete: it has enough providers, each finding has a verdict and a reason, and few findings
// are false. Findings can be compared only on a machine with the checkouts: CAPSTAN_FIELD names their directory.
func TestField(t *testing.T) {
	f, err := read(dataFile)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Providers) < 15 {
		t.Errorf("there are %d providers, want at least 15", len(f.Providers))
	}
	names := map[string]bool{}
	for _, p := range f.Providers {
		// A published module has no commit here: its version identifies it.
		isModule := p.Commit == "" && p.Note != ""
		if p.Name == "" || names[p.Name] || p.Version == "" || !strings.Contains(p.Repository, "/") ||
			!isModule && !regexp.MustCompile(`^[0-9a-f]{7,40}$`).MatchString(p.Commit) {
			t.Errorf("the provider %q lacks a unique name, a repository, a version or a commit", p.Name)
		}
		names[p.Name] = true
		p.form(t)
	}
	right, wrong := f.verdicts()
	if total := right + wrong; wrong*50 > total {
		t.Errorf("%d of %d findings are false, more than 2 of 100", wrong, total)
	}
	for _, b := range f.Bugs {
		if b.Name == "" || b.What == "" || b.Result == "" || b.Check != "" && len(checks.Find(b.Check)) == 0 {
			t.Errorf("the bug %q lacks its description or result, or names an unknown check", b.Name)
		}
	}
	if dir := os.Getenv("CAPSTAN_FIELD"); dir != "" {
		for _, p := range f.Providers {
			for _, wrong := range p.differences(p.run(dir)) {
				t.Errorf("%s: %s", p.Name, wrong)
			}
		}
	}
}

func (p provider) form(t *testing.T) {
	t.Helper()
	for _, one := range p.Findings {
		isOf := func(c *check.Check) bool { return c.ID == one.Check }
		if _, ok := contract.Find(one.Rule); !ok || !slices.ContainsFunc(checks.Find(one.Rule), isOf) {
			t.Errorf("%s: %s is not a rule of check %s", p.Name, one.Rule, one.Check)
		}
		if len(one.Places) == 0 || !strings.HasSuffix(one.Reason, ".") {
			t.Errorf("%s: the finding of check %s for rule %s has no place or no reason", p.Name, one.Check, one.Rule)
		}
	}
}

func TestThePageIsMadeFromTheData(t *testing.T) {
	f, err := read(dataFile)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docs/field.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != f.page() {
		t.Error("docs/field.md does not match the data: run make generate")
	}
}

func TestDifferences(t *testing.T) {
	judged := provider{Name: "foo", Findings: []finding{{
		Check: "a", Rule: "IM-01", Places: []string{"one | Foo x", "two | Foo x"}, Verdict: true, Reason: "It is so.",
	}}}
	found := func(files ...string) result {
		var r result
		for _, file := range files {
			f := check.Finding{Check: "a", Rule: "IM-01", Object: "Foo x"}
			f.File = file
			r.findings = append(r.findings, f)
		}
		return r
	}
	slow := found("one", "two")
	slow.took = 2 * limit
	for name, c := range map[string]struct {
		provider provider
		got      result
		want     []string
	}{
		"the same findings": {judged, found("one", "two"), nil},
		"a missing finding": {judged, found("two"), []string{"not found: a | IM-01 |  | one | Foo x"}},
		"a new finding": {
			judged, found("one", "two", "new"), []string{"not judged: a | IM-01 |  | new | Foo x"},
		},
		"a run that takes too long": {judged, slow, []string{"it took 10s, more than 5s"}},
		"a provider that can't be judged": {
			judged, result{err: os.ErrNotExist}, []string{"it cannot be judged: file does not exist"},
		},
		"a provider that is refused as expected": {provider{Refused: "not exist"}, result{err: os.ErrNotExist}, nil},
		"a provider that is no longer refused": {
			provider{Refused: "x"}, result{}, []string{"it can be judged, but the file says that it cannot: x"},
		},
		"a check that fails": {
			provider{}, result{failures: []check.Failure{{Check: "a", Message: "b"}}},
			[]string{"the check a itself failed: b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.provider.differences(c.got); !slices.Equal(got, c.want) {
				t.Errorf("the differences are %q, want %q", got, c.want)
			}
		})
	}
}
