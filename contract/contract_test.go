package contract

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var ruleID = regexp.MustCompile(`^[A-Z]+-\d\d\d?$`)

// The table is complete: a missing number, a repeated row or a cell without text is a mistake in the data.
func TestRules(t *testing.T) {
	all := Rules()
	next := map[string]int{}
	for _, r := range all {
		next[r.Family()]++
		if want := fmt.Sprintf("%s-%02d", r.Family(), next[r.Family()]); r.ID != want {
			t.Errorf("found %s where %s is expected", r.ID, want)
		}
		if !ruleID.MatchString(r.ID) || r.Text == "" || r.Source == "" || r.Check == "" {
			t.Errorf("%s has a bad id, or no text, source or check: %+v", r.ID, r)
		}
		if !slices.Contains([]Level{Must, Should, May}, r.Level) {
			t.Errorf("%s has level %q", r.ID, r.Level)
		}
		if !slices.Contains([]Party{Provider, Extension, Administrator, Core, Clusterctl, Anybody}, r.Of) {
			t.Errorf("%s binds the unknown party %q", r.ID, r.Of)
		}
		if r.Only != "" && !slices.Contains(r.Versions(), r.Only) {
			t.Errorf("%s exists only in version %q, which its family does not have", r.ID, r.Only)
		}
		for v := range r.Forms {
			if !r.In(v) {
				t.Errorf("%s has a form in %s, which does not have the rule", r.ID, v)
			}
		}
		if len(r.Methods()) == 0 && !strings.HasPrefix(r.Check, "see ") {
			t.Errorf("%s does not say how it is checked: %q", r.ID, r.Check)
		}
	}
	if len(next) != len(Families()) {
		t.Errorf("there are rules of %d families, want %d", len(next), len(Families()))
	}
}

func TestForm(t *testing.T) {
	machine, ok := Find("IM-19")
	if !ok {
		t.Fatal("there is no rule IM-19")
	}
	if got := machine.Form(V1Beta1); got != "`status.ready` boolean" {
		t.Errorf("IM-19 in v1beta1 is %q", got)
	}
	if got := machine.Form(V1Beta2); !strings.Contains(got, "status.initialization.provisioned") {
		t.Errorf("IM-19 in v1beta2 is %q", got)
	}
	if got := machine.Form(Seed); got != "" {
		t.Errorf("IM-19 has the form %q in a version that its family does not have", got)
	}
	domain, _ := Find("IM-18")
	if domain.In(V1Beta1) || !domain.In(V1Beta2) {
		t.Error("IM-18 is not a rule of v1beta2 only")
	}
	if _, ok := Find("IM-99"); ok {
		t.Error("Find returns a rule IM-99, which does not exist")
	}
}

var cited = regexp.MustCompile(`\b(?:T-)?[A-Z]{1,3}-\d\d\d?\b`)

// Every id that a text names exists in the data.
func TestTextsNameWhatExists(t *testing.T) {
	known := map[string]bool{}
	texts := map[string]string{}
	for _, r := range Rules() {
		known[r.ID] = true
		texts[r.ID] = r.Text + r.Form(r.Versions()[0]) + r.Form(r.Versions()[1]) + r.Check
	}
	for _, d := range Decisions() {
		if known[d.ID] || d.Finding == "" || d.Reading == "" {
			t.Errorf("%s appears twice, or has no finding or reading", d.ID)
		}
		known[d.ID] = true
		texts[d.ID] = d.Finding + d.Reading
	}
	for _, s := range Sequences() {
		if known[s.ID] || s.Do == "" || s.Assert == "" || len(s.Rules) == 0 {
			t.Errorf("%s appears twice, or has no rules, nothing to do or nothing to assert", s.ID)
		}
		known[s.ID] = true
		texts[s.ID] = s.Do + s.Assert + " " + strings.Join(s.Rules, " ")
	}
	for id, text := range texts {
		for _, other := range cited.FindAllString(text, -1) {
			if !known[other] && !strings.HasPrefix(other, "DNS-") && !strings.HasPrefix(other, "SHA-") {
				t.Errorf("%s names %s, which does not exist", id, other)
			}
		}
	}
}

// A caller that changes its result does not change what the next caller gets.
func TestRulesAreACopy(t *testing.T) {
	Rules()[0].ID = "changed"
	if got := Rules()[0].ID; got != "IM-01" {
		t.Errorf("the first rule is %q after a caller changed its copy", got)
	}
}
