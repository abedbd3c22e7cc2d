package rule

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	rules, err := Table()
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, r := range rules {
		prefix := r.ID[:strings.LastIndex(r.ID, "-")]
		count[prefix]++
	}
	// As many as the tables of the contracts have: a row that is lost here would be covered by nobody.
	for prefix, want := range map[string]int{"IM": 70, "IMT": 14, "IC": 60, "ICT": 8, "RB": 12, "SG": 9, "T-IM": 19, "T-IC": 14} {
		if count[prefix] != want {
			t.Errorf("the table has %d rows %s, want %d", count[prefix], prefix, want)
		}
	}
}

// TestElsewhere looks for the tests of other packages: each is there and has the id of the rule.
func TestElsewhere(t *testing.T) {
	rules, err := Table()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules {
		if r.Elsewhere == "" {
			continue
		}
		folder, test, _ := strings.Cut(r.Elsewhere, ".")
		files, err := filepath.Glob(filepath.Join("../../..", folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		named, there := false, false
		for _, path := range files {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			named = named || regexp.MustCompile(regexp.QuoteMeta(r.ID)+`\b`).Match(text)
			there = there || strings.Contains(string(text), "\nfunc "+test+"(")
		}
		if !named || !there {
			t.Errorf("%s is covered by %s: named %t, there %t", r.ID, r.Elsewhere, named, there)
		}
	}
}

func TestReport(t *testing.T) {
	rules := []Rule{
		{ID: "A-1", Level: "MUST", Of: "provider", Text: "covered twice"},
		{ID: "A-2", Level: "MUST", Of: "provider", Text: "one test fails"},
		{ID: "A-3", Level: "MUST", Of: "provider", Text: "nobody"},
		{ID: "A-4", Level: "MAY", Of: "provider", Text: "listed", Why: "a freedom"},
		{ID: "A-5", Level: "MAY", Of: "provider", Text: "one version", Only: V1Beta1},
	}
	var found []entry
	for _, v := range Versions {
		found = append(found,
			entry{"A-1", v, "TestB", pass}, entry{"A-1", v, "TestA", pass},
			entry{"A-2", v, "TestA", pass}, entry{"A-2", v, "TestB", fail}, entry{"A-2", v, "TestC", skipped})
	}
	found = append(found, entry{"A-5", V1Beta1, "TestA", pass})
	r := report(rules, found)
	for _, line := range []string{
		"A-1\tMUST\tprovider\tv1beta1\tpass\tTestA TestB",
		"A-2\tMUST\tprovider\tv1beta2\tFAIL\tTestA TestB TestC",
		"A-3\tMUST\tprovider\tv1beta2\tmissing\t",
		"A-4\tMAY\tprovider\tv1beta1\tlisted\ta freedom",
		"A-5\tMAY\tprovider\tv1beta1\tpass\tTestA",
		"A-5\tMAY\tprovider\tv1beta2\tnot in this contract\tonly v1beta1",
		"5 rules and behaviour tests in two contract versions: 3 pass; 2 FAIL; 0 skipped; 0 elsewhere; 2 listed; 1 not in this contract; 2 missing;",
	} {
		if !strings.Contains(string(r.Text), line+"\n") {
			t.Errorf("no line %q in\n%s", line, r.Text)
		}
	}
	if got := strings.Join(r.Missing, ", "); got != "A-3 v1beta1, A-3 v1beta2" {
		t.Errorf("missing: %s", got)
	}
}
