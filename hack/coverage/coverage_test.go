package main

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestRead(t *testing.T) {
	const pkg = `"Package":"github.com/capstan-dev/capstan/runtime/server",`
	events := strings.Join([]string{
		`{"Action":"attr",` + pkg + `"Test":"TestA","Key":"rule","Value":"RX-05"}`,
		`{"Action":"attr",` + pkg + `"Test":"TestA/sub","Key":"rule","Value":"IM-05 v1beta2"}`,
		`{"Action":"attr",` + pkg + `"Test":"TestA","Key":"other","Value":"x"}`,
		`{"Action":"attr",` + pkg + `"Test":"TestB","Key":"rule","Value":"RX-06"}`,
		`{"Action":"attr",` + pkg + `"Test":"TestC","Key":"rule","Value":"RX-07"}`,
		`{"Action":"pass",` + pkg + `"Test":"TestA/sub"}`,
		`{"Action":"fail",` + pkg + `"Test":"TestA"}`,
		`{"Action":"skip",` + pkg + `"Test":"TestB"}`,
	}, "\n")
	got, err := read(strings.NewReader(events))
	if err != nil {
		t.Fatal(err)
	}
	want := []record{
		{id: "IM-05", version: "v1beta2", test: "runtime/server.TestA/sub", verdict: pass},
		{id: "RX-05", test: "runtime/server.TestA", verdict: fail},
		// TestC has no verdict because its package crashed. TestB was skipped and does not count.
		{id: "RX-07", test: "runtime/server.TestC", verdict: fail},
	}
	if !slices.Equal(got, want) {
		t.Errorf("read returns %+v, want %+v", got, want)
	}
}

func TestReadRefuses(t *testing.T) {
	for name, value := range map[string]string{
		"a list": "RX-05, RX-06", "a range": "RX-05 to RX-08", "an invalid version": "IM-05 v1", "an empty text": "",
		"words": "the rule",
	} {
		line := `{"Action":"attr","Package":"p","Test":"T","Key":"rule","Value":"` + value + `"}`
		if _, err := read(strings.NewReader(line)); err == nil {
			t.Errorf("%s was accepted as a rule: %q", name, value)
		}
	}
	if _, err := read(strings.NewReader("ok  \tpkg\t0.1s")); err == nil {
		t.Error("output without -json was accepted")
	}
}

func TestJudge(t *testing.T) {
	rx := row{id: "RX-05", level: "MUST"}
	old, new := row{id: "IM-05", version: "v1beta1"}, row{id: "IM-05", version: "v1beta2"}
	for name, c := range map[string]struct {
		row     row
		records []record
		reasons map[string]string
		state   state
		problem string
	}{
		"a record that passed": {rx, []record{{"RX-05", "", "a.T", pass}}, nil, passed, ""},
		"one of two records failed": {rx, []record{{"RX-05", "", "a.T", pass}, {"RX-05", "", "a.U", fail}}, nil,
			failed, ""},
		"neither a record nor a reason": {rx, nil, nil, missing, "no executed test asserts RX-05"},
		"only a reason":                 {rx, nil, map[string]string{"RX-05": "why"}, reason, ""},
		"a record and a reason": {rx, []record{{"RX-05", "", "a.T", pass}}, map[string]string{"RX-05": "why"},
			passed, "remove the reason"},
		"a record of another version": {old, []record{{"IM-05", "v1beta2", "a.T", pass}}, nil, missing,
			"no executed test asserts IM-05 v1beta1"},
		"a record of the same version":  {new, []record{{"IM-05", "v1beta2", "a.T", pass}}, nil, passed, ""},
		"a reason for the same version": {old, nil, map[string]string{"IM-05 v1beta1": "why"}, reason, ""},
		"a reason for another version": {old, nil, map[string]string{"IM-05 v1beta2": "why"}, missing,
			"the reason for IM-05 v1beta2 has no use"},
		"a record of an unknown rule": {rx, []record{{"RX-05", "", "a.T", pass}, {"RX-99", "", "a.T", pass}}, nil,
			passed, "RX-99, which the contract does not have"},
		"a reason for an unknown rule": {rx, []record{{"RX-05", "", "a.T", pass}}, map[string]string{"RX-99": "why"},
			passed, "the reason for RX-99 has no use"},
		"a record of a sequence": {rx, []record{{"RX-05", "", "a.T", pass}, {"T-CT-01", "", "a.T", pass}}, nil,
			passed, ""},
		"a record of an unknown sequence": {rx, []record{{"RX-05", "", "a.T", pass}, {"T-CT-99", "", "a.T", pass}}, nil,
			passed, "T-CT-99"},
	} {
		t.Run(name, func(t *testing.T) {
			results, problems := judge([]row{c.row}, c.records, c.reasons)
			if results[0].state != c.state {
				t.Errorf("the state is %s, want %s", results[0].state, c.state)
			}
			if c.problem == "" && len(problems) > 0 ||
				c.problem != "" && !strings.Contains(strings.Join(problems, "\n"), c.problem) {
				t.Errorf("the problems are %q, want %q", problems, c.problem)
			}
		})
	}
}

// TestRows: a rule of a family that is recorded by version has one row for each version to which the rule belongs.
func TestRows(t *testing.T) {
	count := map[string]int{}
	for _, r := range rows() {
		count[r.id]++
	}
	for id, want := range map[string]int{"IM-05": 2, "IM-18": 1, "RX-05": 1, "CT-10": 1, "T-IM-05": 2, "T-CT-01": 0} {
		if count[id] != want {
			t.Errorf("the rule %s has %d rows, want %d", id, count[id], want)
		}
	}
}

func TestScan(t *testing.T) {
	root := t.TempDir()
	source := `package p

func TestX(t *testing.T) {
	t.Attr("rule", "RX-05")
	recordBoth(t, "IM-05")
	t.Attr("rule", "IM-06 "+version)
	check(t)
	t.Attr("rule", "RX-01")
	t.Attr("rule", "RX-02")
	t.Attr("rule", "RX-03")
	t.Attr("rule", "RX-04")
	fmt.Println("RX-99")
}
`
	if err := os.WriteFile(filepath.Join(root, "p_test.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	sites, problems, err := scan(root)
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{
		"RX-05": "p_test.go:4", "IM-05": "p_test.go:5", "IM-06": "p_test.go:6", "RX-99": "",
	} {
		if got := strings.Join(sites[id], " "); got != want {
			t.Errorf("%s is recorded at %q, want %q", id, got, want)
		}
	}
	if len(problems) != 1 || !strings.HasPrefix(problems[0], "p_test.go:11:") {
		t.Errorf("four records in a row are reported as %q", problems)
	}
}

// TestNoLists: the tests of this project record rules at the lines that assert them.
func TestNoLists(t *testing.T) {
	_, problems, err := scan("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Error(p)
	}
}

func TestWrite(t *testing.T) {
	var out bytes.Buffer
	where := run{commit: "abc", date: time.Unix(0, 0).UTC().Format(time.RFC3339), abilities: []string{"linux/amd64"}}
	results := []result{
		{
			row:   row{id: "IM-05", level: "MUST", of: "provider", version: "v1beta1"},
			state: passed,
			tests: []string{"a.T", "b.T"},
		},
		{row: row{id: "RX-41", level: "MAY", of: "extension"}, state: reason, reason: "for people"},
	}
	err := write(
		&out,
		where,
		results,
		map[string][]string{"IM-05": {"a/a_test.go:3"}},
		map[string]string{"IM-05": "found"},
	)
	if err != nil {
		t.Fatal(err)
	}
	want := "# commit abc\n# date 1970-01-01T00:00:00Z\n# machine linux/amd64\n" +
		"id\tlevel\tof\tcontract\tverdict\tfault\twhere\ttests or reason\n" +
		"IM-05\tMUST\tprovider\tv1beta1\tpass\tfound\ta/a_test.go:3\ta.T b.T\n" +
		"RX-41\tMAY\textension\t-\treason\t-\t-\tfor people\n"
	if got := out.String(); got != want {
		t.Errorf("the report is\n%s\nwant\n%s", got, want)
	}
}

func TestReadFaults(t *testing.T) {
	dir := t.TempDir()
	committed, path := filepath.Join(dir, "results.tsv"), filepath.Join(dir, "faults.tsv")
	if got, err := readFaults(committed, path); err != nil || len(got) > 0 {
		t.Errorf("without a report, readFaults returned %v, error %v", got, err)
	}
	const heading = "rule\tverdict\tcommit\tdate\tseconds\tfile\ttest\tdetail\n"
	for name, text := range map[string]string{
		committed: "RX-05\tfound\tab\td\t1\tf\tt\t\nRX-06\tfound\tab\td\t1\tf\tt\t\n",
		path: "RX-05\tfound\tabc\td\t1\tf\tt\t\nRX-05\tNOT FOUND\tabc\td\t1\tf\tt\t\n" +
			"RX-05\tfound\tabc\td\t1\tf\tt\t\nRX-41\tno fault\t\t\t0\t\t\twhy\n",
	} {
		if err := os.WriteFile(name, []byte(heading+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := readFaults(committed, path)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"RX-05": "NOT FOUND abc", "RX-06": "found ab", "RX-41": "no fault"}
	if !maps.Equal(got, want) {
		t.Errorf("the verdicts are %v, want %v", got, want)
	}
}
