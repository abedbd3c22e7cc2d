package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// few returns a table: two faults of one rule, one that takes long, one of another family, and a reason.
func few() []fault {
	return []fault{
		{Rule: "LH-24", File: "a.go", Test: "./test/e2e.TestA"},
		{Rule: "RX-05", File: "a.go", Test: "./p.TestA"},
		{Rule: "RX-05", File: "b.go", Test: "./p.TestA"},
		{Rule: "CL-05", File: "b.go", Test: "./plane.TestB"},
		{Rule: "RX-24", Why: "because"},
	}
}

func row(rule, verdict, commit, file, test string) reportRow {
	return reportRow{rule, verdict, commit, "2026-11-23", 7 * time.Second, file, test, "x_test.go:3: on 127.0.0.1:9"}
}

func TestReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "reports", "faults.tsv")
	if rows, err := readReport(path); err != nil || len(rows) > 0 {
		t.Fatalf("without a report, readReport returned %v, error %v", rows, err)
	}
	one := row("RX-05", "found", "abc", "a.go", "./p.TestA")
	one.detail = "two\nlines"
	if err := writeReport(path, []reportRow{one, {rule: "CL-01", verdict: noFault, detail: "why"}}); err != nil {
		t.Fatal(err)
	}
	rows, err := readReport(path)
	if err != nil {
		t.Fatal(err)
	}
	one.detail = "two lines"
	if want := []reportRow{{rule: "CL-01", verdict: noFault, detail: "why"}, one}; !slices.Equal(rows, want) {
		t.Errorf("the report is %+v, want %+v", rows, want)
	}
	for name, text := range map[string]string{
		"without a heading":             "RX-05\tfound\n",
		"with a line that is too short": heading + "RX-05\tfound\n",
		"with invalid seconds":          heading + "RX-05\tfound\tabc\td\tlong\ta\tb\tc\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readReport(path); err == nil {
			t.Errorf("a report %s was accepted", name)
		}
	}
}

// TestBegin: a run tries the faults that were not found on its commit, the cheap ones first, and keeps the other
// lines.
func TestBegin(t *testing.T) {
	before := []reportRow{
		row("RX-05", "found", "new", "a.go", "./p.TestA"),
		row("RX-05", "NOT FOUND", "new", "b.go", "./p.TestA"),
		row("CL-05", "found", "old", "b.go", "./plane.TestB"),
		row("RX-99", "found", "new", "gone.go", "./p.TestA"),
	}
	for name, c := range map[string]struct {
		names []string
		again bool
		want  string
	}{
		"the remaining faults":             {nil, false, "CL-05:b.go RX-05:b.go LH-24:a.go"},
		"the remaining faults of a family": {[]string{"RX"}, false, "RX-05:b.go"},
		"all faults of a family again":     {[]string{"RX"}, true, "RX-05:a.go RX-05:b.go"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "faults.tsv")
			if err := writeReport(path, before); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			r := &trial{table: few(), names: c.names, commit: "new", again: c.again, report: path, out: &out}
			todo, err := r.begin()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range todo {
				got = append(got, f.Rule+":"+f.File)
			}
			slices.Sort(got)
			want := strings.Fields(c.want)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("the faults to try are %q, want %q", got, want)
			}
			if len(todo) == 3 && todo[2].Rule != "LH-24" {
				t.Errorf("the last fault to try is of %s, want the one that takes longest", todo[2].Rule)
			}
			if len(r.rows) != 4 {
				t.Errorf("the kept lines are %+v, want those of the table and the reason", r.rows)
			}
		})
	}
}

// TestDone: the outcome of a fault replaces only the line of that fault, and is written at once.
func TestDone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "faults.tsv")
	var out strings.Builder
	r := &trial{commit: "new", report: path, out: &out, rows: []reportRow{
		row("RX-05", "found", "old", "a.go", "./p.TestA"), row("RX-05", "found", "old", "b.go", "./p.TestA"),
	}}
	r.done(few()[2], notFound, "", time.Now())
	rows, err := readReport(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 2 || rows[0].commit != "old" || rows[1].commit != "new" || rows[1].verdict != string(notFound) {
		t.Errorf("the report is %+v", rows)
	}
	if !slices.Equal(r.bad, []string{"RX-05"}) {
		t.Errorf("the faults that were not found are of %q", r.bad)
	}
}

func TestRecord(t *testing.T) {
	full := []reportRow{
		row("LH-24", "found", "new", "a.go", "./test/e2e.TestA"),
		row("RX-05", "found", "new", "a.go", "./p.TestA"),
		row("RX-05", "found", "new", "b.go", "./p.TestA"),
		row("CL-05", "found", "new", "b.go", "./plane.TestB"),
		{rule: "RX-24", verdict: noFault, detail: "because"},
	}
	for name, c := range map[string]struct {
		change func([]reportRow)
		want   string
	}{
		"a complete run":        {func([]reportRow) {}, ""},
		"a fault is missing":    {func(r []reportRow) { r[2].file = "c.go" }, "RX-05 was not tried: b.go"},
		"a reason is missing":   {func(r []reportRow) { r[4].rule = "RX-25" }, "RX-24 was not tried"},
		"a fault was not found": {func(r []reportRow) { r[3].verdict = "NOT FOUND" }, "CL-05: NOT FOUND"},
		"a fault was tried on another commit": {
			func(r []reportRow) { r[3].commit = "old" }, "CL-05 was tried on old, others on new",
		},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := filepath.Join(t.TempDir(), "faults.tsv"), filepath.Join(t.TempDir(), "results.tsv")
			rows := slices.Clone(full)
			c.change(rows)
			if err := writeReport(from, rows); err != nil {
				t.Fatal(err)
			}
			err := record(few(), from, to)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got error %v, want one with %q", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			kept, err := readReport(to)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range kept {
				if want := "x_test.go:3"; r.verdict == string(found) && r.detail != want {
					t.Errorf("the recorded detail of %s is %q, want %q", r.rule, r.detail, want)
				}
			}
		})
	}
}

// TestResults: the committed report is of one commit, and says that each fault was found.
func TestResults(t *testing.T) {
	rows, err := readReport(filepath.Join(root, results))
	if err != nil {
		t.Fatal(err)
	}
	commits := map[string]bool{}
	for _, r := range rows {
		if r.verdict == noFault {
			continue
		}
		if r.verdict != string(found) {
			t.Errorf("the verdict of a fault of %s is %s, want that it was found", r.rule, r.verdict)
		}
		commits[r.commit] = true
	}
	if len(commits) > 1 {
		t.Errorf("the report is of %d commits, want one", len(commits))
	}
}
