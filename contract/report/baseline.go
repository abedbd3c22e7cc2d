package report

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/source"
)

// Baseline is the check id of findings about stale baseline entries.
const Baseline = "baseline"

// Accepted is one entry of a baseline: it accepts the findings that match it.
type Accepted struct {
	// Check and Rule are those of the finding. Object, Field and Contract match any value if empty.
	Check    string `json:"check"`
	Rule     string `json:"rule"`
	Contract string `json:"contract,omitempty"`
	Object   string `json:"object,omitempty"`
	Field    string `json:"field,omitempty"`
	// Reason says why the project accepts the findings. It is required.
	Reason string `json:"reason"`
}

// matches reports whether an entry matches a finding. A field that the entry leaves out matches every value.
func (a Accepted) matches(f check.Finding) bool {
	same := func(want, got string) bool { return want == "" || want == got }
	return a.Check == f.Check && a.Rule == f.Rule && same(a.Contract, f.Contract) && same(a.Object, f.Object) &&
		same(a.Field, f.Field)
}

// String identifies the entry.
func (a Accepted) String() string {
	return strings.Join(
		strings.Fields(strings.Join([]string{a.Check, a.Rule, a.Contract, a.Object, a.Field}, " ")),
		" ",
	)
}

// ReadBaseline reads a baseline: a YAML list of entries.
func ReadBaseline(path string) ([]Accepted, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the baseline: %w", err)
	}
	var all []Accepted
	if err := yaml.UnmarshalStrict(data, &all); err != nil {
		return nil, fmt.Errorf("reading the baseline %s: %w", path, err)
	}
	var wrong []error
	for i, a := range all {
		if a.Check == "" || a.Rule == "" || strings.TrimSpace(a.Reason) == "" {
			wrong = append(
				wrong,
				fmt.Errorf("entry %d of the baseline %s lacks a check, a rule or a reason", i+1, path),
			)
		}
	}
	return all, errors.Join(wrong...)
}

// Accept removes from a report the findings that a baseline accepts. An entry of the baseline that matches no finding
// is stale: Accept adds a finding about it.
func Accept(r *check.Report, baseline []Accepted, path string) {
	used := make([]bool, len(baseline))
	kept := []check.Finding{}
	for _, f := range r.Findings {
		accepted := false
		for i, a := range baseline {
			if a.matches(f) {
				used[i], accepted = true, true
			}
		}
		if !accepted {
			kept = append(kept, f)
		}
	}
	for i, a := range baseline {
		if used[i] {
			continue
		}
		kept = append(kept, check.Finding{
			Check: Baseline, Rule: a.Rule, Level: check.Must, Position: source.Position{File: path},
			Message: fmt.Sprintf("entry %d accepts what is not found any more: %s", i+1, a),
			Why:     "A stale entry would hide the same mistake when it comes back.",
			Fix:     "Remove the entry.",
			Link:    check.Book,
		})
	}
	r.Findings = kept
}
