// Package rule keeps account of which rules of the provider contracts are covered by tests.
//
// The rules stand in rules.yaml. A test says what it covers with [Covers]; [Main] runs the tests of a package, writes the report (rule, level,
// contract version, verdict, tests), and fails if a rule is neither covered nor has a reason for it in the table.
package rule

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"
)

// Version is a contract version of Cluster API.
type Version string

// The contract versions that Capstan serves.
const (
	V1Beta1 Version = "v1beta1"
	V1Beta2 Version = "v1beta2"
)

// Versions are all contract versions, the older first.
var Versions = []Version{V1Beta1, V1Beta2}

// Rule is one row of the table.
type Rule struct {
	// ID is the row's name, for example IM-41, or that of a behaviour test, for example T-IM-05.
	ID string `json:"id"`
	// Level is MUST, SHOULD or MAY; TEST for behaviour tests.
	Level string `json:"level"`
	// Of says who has to keep the rule: provider, core or others.
	Of string `json:"of"`
	// Text says what the rule asks for, in one sentence.
	Text string `json:"text"`
	// Only is the one contract version that has the rule. Empty: both.
	Only Version `json:"only,omitempty"`
	// Why is the reason for which no test covers the rule. Empty: one must.
	Why string `json:"why,omitempty"`
	// Elsewhere is a test of another package that covers the rule, as FOLDER.TestName with the folder from the root of the sources; its comment or text has
	// the rule's id.
	Elsewhere string `json:"elsewhere,omitempty"`
}

// in reports whether the contract version has the rule.
func (r Rule) in(v Version) bool { return r.Only == "" || r.Only == v }

//go:embed rules.yaml
var table []byte

// Table returns all rules in the order of the table. The error says which row is wrong.
func Table() ([]Rule, error) {
	var rules []Rule
	if err := yaml.UnmarshalStrict(table, &rules); err != nil {
		return nil, fmt.Errorf("reading rules.yaml: %w", err)
	}
	var errs []error
	seen := map[string]bool{}
	for _, r := range rules {
		switch {
		case r.ID == "" || r.Text == "":
			errs = append(errs, fmt.Errorf("rule %q has no id or no text", r.ID))
		case seen[r.ID]:
			errs = append(errs, fmt.Errorf("rule %s stands there twice", r.ID))
		case !slices.Contains([]string{"MUST", "SHOULD", "MAY", "TEST"}, r.Level):
			errs = append(errs, fmt.Errorf("rule %s has level %q", r.ID, r.Level))
		case !slices.Contains([]string{"provider", "core", "others"}, r.Of):
			errs = append(errs, fmt.Errorf("rule %s is of %q", r.ID, r.Of))
		case r.Only != "" && !slices.Contains(Versions, r.Only):
			errs = append(errs, fmt.Errorf("rule %s is of contract %q", r.ID, r.Only))
		}
		seen[r.ID] = true
	}
	return rules, errors.Join(errs...)
}

// verdict of one test about one rule.
type verdict string

const (
	pass    verdict = "pass"
	fail    verdict = "FAIL"
	skipped verdict = "skipped"
)

// entry is what one test says about one rule in one contract version.
type entry struct {
	id      string
	version Version
	test    string
	verdict verdict
}

var (
	mu      sync.Mutex
	entries []entry
)

// Covers records that the test covers rules of a contract version. The verdict is that of the test when it ends. A rule that is not in the
// table, or not in that contract version, fails the test.
func Covers(t testing.TB, version Version, ids ...string) {
	t.Helper()
	rules, err := Table()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		i := slices.IndexFunc(rules, func(r Rule) bool { return r.ID == id })
		if i < 0 || !rules[i].in(version) {
			t.Errorf("contract %s has no rule %s: see test/contract/rule/rules.yaml", version, id)
		}
	}
	t.Cleanup(func() {
		v := pass
		switch {
		case t.Failed():
			v = fail
		case t.Skipped():
			v = skipped
		}
		mu.Lock()
		defer mu.Unlock()
		for _, id := range ids {
			entries = append(entries, entry{id: id, version: version, test: t.Name(), verdict: v})
		}
	})
}

// Both is Covers for both contract versions. Rules of one version only are recorded for that one.
func Both(t testing.TB, ids ...string) {
	t.Helper()
	rules, err := Table()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range Versions {
		var in []string
		for _, id := range ids {
			if !slices.ContainsFunc(rules, func(r Rule) bool { return r.ID == id && !r.in(v) }) {
				in = append(in, id)
			}
		}
		Covers(t, v, in...)
	}
}

// In is Covers for the rules of ids that the contract version has.
func In(t testing.TB, version Version, ids ...string) {
	t.Helper()
	rules, err := Table()
	if err != nil {
		t.Fatal(err)
	}
	Covers(t, version, slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		return slices.ContainsFunc(rules, func(r Rule) bool { return r.ID == id && !r.in(version) })
	})...)
}

// Report is the state of all rules.
type Report struct {
	// Text is a table, one line for each rule and contract version, with totals at the end.
	Text []byte
	// Missing are the rules that nothing covers and that have no reason, as "IM-41 v1beta1".
	Missing []string
}

// report judges the rules by what tests recorded.
func report(rules []Rule, found []entry) Report {
	var out bytes.Buffer
	var missing []string
	totals := map[string]int{}
	fmt.Fprintln(&out, "id\tlevel\tof\tcontract\tverdict\ttests")
	for _, r := range rules {
		for _, v := range Versions {
			result, detail := judge(r, v, found)
			if result == "missing" {
				missing = append(missing, r.ID+" "+string(v))
			}
			totals[result]++
			fmt.Fprintf(&out, "%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, r.Level, r.Of, v, result, detail)
		}
	}
	fmt.Fprintf(&out, "\n%d rules and behaviour tests in two contract versions:", len(rules))
	for _, result := range []string{string(pass), string(fail), string(skipped), "elsewhere", "listed", "not in this contract", "missing"} {
		fmt.Fprintf(&out, " %d %s;", totals[result], result)
	}
	fmt.Fprintln(&out)
	return Report{Text: out.Bytes(), Missing: missing}
}

// judge returns the verdict about one rule in one contract version: the worst of its tests, or why there is none.
func judge(r Rule, v Version, found []entry) (result, detail string) {
	worst := verdict("")
	var tests []string
	for _, e := range found {
		if e.id != r.ID || e.version != v {
			continue
		}
		if worst == "" || e.verdict == fail || e.verdict == skipped && worst == pass {
			worst = e.verdict
		}
		if !slices.Contains(tests, e.test) {
			tests = append(tests, e.test)
		}
	}
	slices.Sort(tests)
	switch {
	case worst != "":
		return string(worst), strings.Join(tests, " ")
	case !r.in(v):
		return "not in this contract", "only " + string(r.Only)
	case r.Elsewhere != "":
		return "elsewhere", r.Elsewhere
	case r.Why != "":
		return "listed", r.Why
	default:
		return "missing", ""
	}
}
