package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/capstan-dev/capstan/contract"
)

const root = "../.."

// TestTables: the tables match the sources: each fault can be planted, its test exists, and each rule of level MUST
// that our own code keeps has a fault or a reason.
func TestTables(t *testing.T) {
	table, err := read(filepath.Join(root, "test", "faults"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, f := range table {
		if err := f.check(root); err != nil {
			t.Error(err)
		}
		// These identify a fault in the report.
		if key := f.Rule + " " + f.File + " " + f.Test; seen[key] {
			t.Errorf("two faults have the same rule, file and test: %s", key)
		} else {
			seen[key] = true
		}
	}
	for _, r := range contract.Rules() {
		family, _ := contract.FamilyOf(r.ID)
		if r.Level == contract.Must && family.Elsewhere == "" &&
			!slices.ContainsFunc(table, func(f fault) bool { return f.Rule == r.ID }) {
			t.Errorf("%s has no fault in test/faults, and no reason for which none can be planted: %s", r.ID, r.Text)
		}
	}
}

func TestCheckRefuses(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"a.go":      "package a\n\nvar x = 1\n",
		"a_test.go": "package a\n\nfunc TestA(t *testing.T) {}\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "p"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "a_test.go"), filepath.Join(dir, "p", "a_test.go")); err != nil {
		t.Fatal(err)
	}
	good := fault{Rule: "RX-05", File: "a.go", Old: "x = 1", New: "x = 2", Test: "./p.TestA"}
	if err := good.check(dir); err != nil {
		t.Fatalf("a valid fault was refused: %v", err)
	}
	for name, change := range map[string]func(*fault){
		"an unknown rule":                      func(f *fault) { f.Rule = "RX-99" },
		"a text that is not in the file":       func(f *fault) { f.Old = "y = 1" },
		"an empty text":                        func(f *fault) { f.Old = "" },
		"a text that occurs twice in the file": func(f *fault) { f.Old = "a" },
		"a new text equal to the old one":      func(f *fault) { f.New = f.Old },
		"a file that does not exist":           func(f *fault) { f.File = "b.go" },
		"a test that does not exist":           func(f *fault) { f.Test = "./p.TestB" },
		"a test without a directory":           func(f *fault) { f.Test = "TestA" },
		"a program that does not exist":        func(f *fault) { f.Build = []string{"nothing"} },
		"a reason in addition to the fault":    func(f *fault) { f.Why = "because" },
	} {
		bad := good
		change(&bad)
		if err := bad.check(dir); err == nil {
			t.Errorf("a fault was accepted with %s", name)
		}
	}
	if err := (fault{Rule: "RX-05", Why: "kept by people"}).check(dir); err != nil {
		t.Errorf("a rule with a reason was refused: %v", err)
	}
}

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		events string
		want   outcome
	}{
		"the test fails":           {`{"Action":"fail","Test":"TestA"}` + "\n" + `{"Action":"fail"}`, found},
		"the test passes":          {`{"Action":"pass","Test":"TestA"}` + "\n" + `{"Action":"pass"}`, notFound},
		"the test is skipped":      {`{"Action":"skip","Test":"TestA"}` + "\n" + `{"Action":"pass"}`, notRun},
		"no test runs":             {`{"Action":"pass"}`, notRun},
		"the fault does not build": {`{"Action":"build-fail"}` + "\n" + `{"Action":"fail"}`, notCompiled},
		"the package crashes":      {`{"Action":"run","Test":"TestA"}` + "\n" + `{"Action":"fail"}`, found},
		"another test fails": {
			`{"Action":"fail","Test":"TestB"}` + "\n" + `{"Action":"pass","Test":"TestA"}` + "\n" + `{"Action":"fail"}`,
			notFound,
		},
		"there are no events": {"", ""},
	} {
		if got, _ := judge([]byte(c.events), "TestA"); got != c.want {
			t.Errorf("if %s, the outcome is %q, want %q", name, got, c.want)
		}
	}
}

// TestDetail: the detail is the failure that the test reports, not what it logs about commands.
func TestDetail(t *testing.T) {
	events := `{"Action":"output","Test":"TestA","Output":"=== RUN TestA\n"}
{"Action":"output","Test":"TestA","Output":"    a_test.go:3: capstan hook list: 500ms\n"}
{"Action":"output","Test":"TestA","Output":"    a_test.go:7: the answer is 6\n"}
{"Action":"output","Test":"TestA","Output":"    a_test.go:9: and 5\n"}
{"Action":"fail","Test":"TestA"}`
	if result, detail := judge([]byte(events), "TestA"); result != found || detail != "a_test.go:7: the answer is 6" {
		t.Errorf("the outcome is %s with the detail %q", result, detail)
	}
}

func TestNamed(t *testing.T) {
	for rule, want := range map[string]bool{"RX-05": true, "CL-05": true, "CL-06": false, "IM-01": false} {
		if got := named(rule, []string{"RX", "CL-05"}); got != want {
			t.Errorf("named(%s) = %t, want %t", rule, got, want)
		}
	}
	if !named("IM-01", nil) {
		t.Error("without names, a rule was left out")
	}
}
