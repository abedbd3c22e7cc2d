package verdicts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// report is a report as Ginkgo writes it, including the parts that Kubernetes' suites leave out.
const report = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="8"><testsuite name="suite" tests="8">
<testcase name="[BeforeSuite]" status="passed" time="1"></testcase>
<testcase name="[It] b passes" status="passed" time="0.5"></testcase>
<testcase name="[It] a fails" status="failed" time="2"><failure message="broken" type="failed">long</failure></testcase>
<testcase name="[It] c panics" status="panicked" time="2"><error type="panicked"> text only </error></testcase>
<testcase name="[It] d can not" status="skipped" time="0"><skipped message="skipped - no kernel"></skipped></testcase>
<testcase name="[It] e was not chosen" status="skipped" time="0"><skipped message="skipped"></skipped></testcase>
<testcase name="[It] f was interrupted" status="interrupted" time="3"><error>stop</error></testcase>
<testcase name="[It] g was late" status="timedout" time="3"><failure message="A suite timeout occurred"></failure>
</testcase>
</testsuite></testsuites>`

func TestReadJUnit(t *testing.T) {
	got, err := ReadJUnit(strings.NewReader(report))
	if err != nil {
		t.Fatal(err)
	}
	want := []Verdict{
		{"a fails", Failed, 2, "broken"}, {"b passes", Passed, 0.5, ""}, {"c panics", Failed, 2, "text only"},
		{"d can not", Skipped, 0, "no kernel"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := ReadJUnit(strings.NewReader("<testsuites>")); err == nil {
		t.Error("ReadJUnit accepts a report that was cut off")
	}
}

func TestABrokenSuiteIsAVerdict(t *testing.T) {
	got, err := ReadJUnit(strings.NewReader(strings.Replace(report,
		`<testcase name="[BeforeSuite]" status="passed" time="1">`,
		`<testcase name="[BeforeSuite]" status="failed" time="1"><failure message="no nodes"></failure>`, 1)))
	if err != nil || len(got) != 5 || got[0] != (Verdict{"[BeforeSuite]", Failed, 1, "no nodes"}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestCompare(t *testing.T) {
	pinned := []Expected{
		{Test: "a *", Outcome: Failed, Lack: Kernel, Reason: "there is none"},
		{Test: "one", Levels: []Level{OneID}, Outcome: Skipped, Lack: ID, Reason: "there is one"},
		{Test: "race", Levels: []Level{SubordinateIDs}, Outcome: Failed, Unsteady: true, Lack: ID, Reason: "load decides"},
	}
	cases := map[string]struct {
		all   []Verdict
		level Level
		whole bool
		want  []string // how the differences begin
	}{
		"all as expected": {[]Verdict{{"a 1", Failed, 1, ""}, {"a 2", Failed, 1, ""}, {"b", Passed, 1, ""},
			{"one", Skipped, 0, ""}}, OneID, true, nil},
		"an unexpected failure": {
			[]Verdict{{"b", Failed, 1, "why"}},
			AllIDs,
			false,
			[]string{"failed: b, which was not expected: why"},
		},
		"an unexpected skip": {
			[]Verdict{{"b", Skipped, 0, "why"}},
			AllIDs,
			false,
			[]string{"skipped: b, which was not expected"},
		},
		"a test of the list passes": {
			[]Verdict{{"a 1", Passed, 1, ""}},
			AllIDs,
			false,
			[]string{"passed: a 1, expected was failed"},
		},
		"an unsteady test passes": {[]Verdict{{"race", Passed, 1, ""}}, SubordinateIDs, false, nil},
		"an unsteady test fails":  {[]Verdict{{"race", Failed, 1, ""}}, SubordinateIDs, false, nil},
		"an unsteady test is skipped": {
			[]Verdict{{"race", Skipped, 1, ""}},
			SubordinateIDs,
			false,
			[]string{"skipped: race, expected was failed"},
		},
		"a test that should fail is skipped": {
			[]Verdict{{"a 1", Skipped, 1, ""}},
			AllIDs,
			false,
			[]string{"skipped: a 1, expected was failed"},
		},
		"an entry for another level": {
			[]Verdict{{"one", Skipped, 0, ""}},
			AllIDs,
			false,
			[]string{"skipped: one, which was not"},
		},
		"an entry that matches no test": {[]Verdict{{"a 1", Failed, 1, ""}}, OneID, true,
			[]string{"no test is named one"}},
		"a part of the suite has no test for an entry": {nil, OneID, false, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := Compare(c.all, pinned, c.level, c.whole)
			if len(got) != len(c.want) {
				t.Fatalf("got %q, want %q", got, c.want)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], c.want[i]) {
					t.Errorf("got %q, want %q", got[i], c.want[i])
				}
			}
		})
	}
}

func TestTable(t *testing.T) {
	got := Table([]Verdict{
		{
			"fine",
			Passed,
			1,
			"",
		}, {"known", Failed, 2, "text"}, {"new", Failed, 3, "two\n  lines " + strings.Repeat("x", 300)},
	}, []Expected{{Test: "known", Outcome: Failed, Lack: Cgroup, Reason: "there is none"}}, AllIDs)
	for _, want := range []string{
		"failed      2.0s  known\n" + strings.Repeat(" ", 18) + "cgroup: there is none\n", " two lines xxx", "…\n",
		"passed      1.0s  fine\n", "1 passed, 2 failed, 0 skipped\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the table lacks %q:\n%s", want, got)
		}
	}
}

func TestReadExpected(t *testing.T) {
	cases := map[string]struct {
		text string
		ok   bool
	}{
		"complete":               {"[{test: a, outcome: failed, lack: kernel, reason: there is none of it}]", true},
		"without a reason":       {"[{test: a, outcome: failed, lack: kernel}]", false},
		"without a lack":         {"[{test: a, outcome: failed, reason: there is none of it}]", false},
		"an expectation to pass": {"[{test: a, outcome: passed, lack: kernel, reason: there is none of it}]", false},
		"an unknown level": {
			"[{test: a, levels: [two], outcome: failed, lack: id, reason: there is none of it}]",
			false,
		},
		"the name *":       {"[{test: '*', outcome: failed, lack: kernel, reason: there is none of it}]", false},
		"an unknown field": {"[{tests: a, outcome: failed, lack: kernel, reason: there is none of it}]", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "expected.yaml")
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := ReadExpected(file); (err == nil) != c.ok {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestTheListsOfTheSources reads the lists with which the results of suites are compared.
func TestTheListsOfTheSources(t *testing.T) {
	for _, suite := range []string{"critest", "conformance"} {
		if _, err := ReadExpected(filepath.Join("..", suite, "expected.yaml")); err != nil {
			t.Error(err)
		}
	}
}
