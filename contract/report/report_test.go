package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/source"
)

func sample() (*check.Report, []*check.Check) {
	table := []*check.Check{
		{ID: "one", Doc: "One.", Why: "Because.", Fix: "Do.", Level: check.Must, Rules: []string{"IM-10"}, Page: "p"},
		{ID: "two", Doc: "Two.", Why: "Because.", Fix: "Do.", Level: check.Should, Rules: []string{"IM-09"}, Page: "p"},
		{ID: "three", Level: check.Must}, {ID: "four", Level: check.Must}, {ID: "five", Level: check.Must},
	}
	return &check.Report{
		Releases: []string{"r"}, Checks: 4,
		Findings: []check.Finding{
			{
				Check: "one", Rule: "IM-10", Level: check.Must, Contract: "v1beta2", Message: "a < b", Why: "Because.", Fix: "Do.",
				Position: source.Position{File: "r/a.yaml", Line: 3, Column: 5}, Object: "Foo x", Field: "spec.a",
				Link: "https://l",
				Edit: source.Edit{Position: source.Position{File: "r/a b.yaml", Line: 3, Column: 5}, Old: `"ä"`, New: "b"},
			},
			{Check: "two", Rule: "IM-09", Level: check.Should, Message: "none", Position: source.Position{File: "r"}},
		},
		Skipped:  []check.Skipped{{Check: "three", Release: "r", Missing: check.Classes}},
		Failures: []check.Failure{{Check: "four", Release: "r", Message: "it panicked"}},
	}, table
}

func write(t *testing.T, format Format) []byte {
	t.Helper()
	r, table := sample()
	var out bytes.Buffer
	if err := Write(&out, format, r, table); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestText(t *testing.T) {
	const want = `r/a.yaml:3:5: MUST IM-10 v1beta2 (one): a < b
    in:  Foo x spec.a
    why: Because.
    fix: Do.
    see: https://l
r: SHOULD IM-09 (two): none
    why: 
    fix: 
    see: 
r: the check four itself failed: it panicked
`
	if got := string(write(t, Text)); got != want {
		t.Errorf("the text is\n%s\nwant\n%s", got, want)
	}
	r, _ := sample()
	if got, want := Summary(r), "2 findings, 4 checks in 1 release; 1 check failed"; got != want {
		t.Errorf("the summary is %q, want %q", got, want)
	}
}

func TestJSON(t *testing.T) {
	var got check.Report
	if err := json.Unmarshal(write(t, JSON), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Findings) != 2 || got.Findings[0].Line != 3 || got.Findings[0].Rule != "IM-10" ||
		len(got.Failures) != 1 {
		t.Errorf("the report reads back as %+v", got)
	}
}

func TestSARIF(t *testing.T) {
	var got sarifLog
	if err := json.Unmarshal(write(t, SARIF), &got); err != nil {
		t.Fatal(err)
	}
	run := got.Runs[0]
	if got.Version != "2.1.0" || len(run.Tool.Driver.Rules) != 5 || len(run.Results) != 2 ||
		run.Invocations[0].Successful {
		t.Fatalf("the log is %+v", got)
	}
	first, second := run.Results[0], run.Results[1]
	region := first.Locations[0].Physical.Region
	if first.RuleID != "one" || first.Level != "error" || region == nil || region.Line != 3 || region.Column != 5 {
		t.Errorf("the first result is %+v", first)
	}
	if second.Level != "warning" || second.Locations[0].Physical.Region != nil {
		t.Errorf("the second result is %+v, want a warning without region", second)
	}
	if len(first.Fixes) != 1 || len(second.Fixes) > 0 {
		t.Fatalf("the fixes are %+v and %+v, want one for the first result", first.Fixes, second.Fixes)
	}
	change := first.Fixes[0].Changes[0]
	want := sarifReplacement{sarifRegion{3, 5, 3, 8}, sarifText{"b"}}
	if change.Artifact.URI != "r/a%20b.yaml" || change.Replacements[0] != want {
		t.Errorf("the fix is %+v, want %+v", change, want)
	}
}

func TestJUnit(t *testing.T) {
	var got junitSuite
	if err := xml.Unmarshal(write(t, JUnit), &got); err != nil {
		t.Fatal(err)
	}
	if got.Tests != 5 || got.Failures != 2 || got.Errors != 1 || got.Skipped != 1 {
		t.Errorf("the suite has %d tests, %d failures, %d errors, %d skipped", got.Tests, got.Failures, got.Errors,
			got.Skipped)
	}
	if text := got.Cases[0].Failure.Text; !strings.Contains(text, "r/a.yaml:3:5: IM-10 v1beta2 (one): a < b") {
		t.Errorf("the first failure is %q", text)
	} else if !strings.Contains(text, "r/a b.yaml:3:5: --fix writes b in the place of \"ä\"") {
		t.Errorf("the first failure does not have the fix: %q", text)
	}
}

// Each format contains what could not be read at all, and the name of the other tool.
func TestAnotherToolThatCouldNotRead(t *testing.T) {
	r := &check.Report{
		Tool: "capstan hook test", Releases: []string{"https://a"}, Findings: []check.Finding{{
			Check: "one", Rule: "RX-01", Level: check.Must, Position: source.Position{File: "https://a"},
		}},
		Failures: []check.Failure{{Check: check.Source, Release: "https://a", Message: "no time"}},
	}
	for format, wants := range map[Format][]string{
		Text:  {"https://a: MUST RX-01 (one)", "https://a: no time"},
		JSON:  {`"tool": "capstan hook test"`, `"message": "no time"`},
		SARIF: {`"name": "capstan hook test"`, `"uri": "https://a"`, "no time"},
		JUnit: {`name="capstan hook test"`, `classname="capstan.hook.test"`, `errors="1"`, "https://a: no time"},
	} {
		var out bytes.Buffer
		if err := Write(&out, format, r, nil); err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s lacks %q:\n%s", format, want, out.String())
			}
		}
	}
}

func TestWriteRefusesAFormatThatDoesNotExist(t *testing.T) {
	r, table := sample()
	var wrong *FormatError
	if err := Write(&bytes.Buffer{}, "html", r, table); !errors.As(err, &wrong) || Format("html").Valid() == nil {
		t.Errorf("Write accepted a format that does not exist: %v", err)
	}
}

func baseline(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "baseline.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBaseline(t *testing.T) {
	path := baseline(t, `
- {check: one, rule: IM-10, object: Foo x, reason: the next release changes it}
- {check: one, rule: IM-10, object: Foo y, reason: that one also}
`)
	accepted, err := ReadBaseline(path)
	if err != nil {
		t.Fatal(err)
	}
	r, table := sample()
	Accept(r, accepted, path)
	if len(r.Findings) != 2 || r.Findings[0].Check != "two" || r.Findings[1].Check != Baseline ||
		!strings.Contains(r.Findings[1].Message, "entry 2") {
		t.Errorf("the remaining findings are %+v, want that of the check two and one about a stale entry", r.Findings)
	}
	var out bytes.Buffer
	if err := Write(&out, JUnit, r, table); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "not found any more") {
		t.Errorf("JUnit leaves the stale entry out:\n%s", out.String())
	}
}

func TestBaselineIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"without a reason":      "- {check: one, rule: IM-10}\n",
		"without a rule":        "- {check: one, reason: x}\n",
		"with an unknown field": "- {check: one, rule: IM-10, reason: x, line: 3}\n",
		"that is not a list":    "check: one\n",
	} {
		if _, err := ReadBaseline(baseline(t, text)); err == nil {
			t.Errorf("ReadBaseline accepted a baseline %s", name)
		}
	}
	if _, err := ReadBaseline(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("ReadBaseline returned no error for a baseline that does not exist")
	}
}
