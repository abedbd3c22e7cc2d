package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// verdictsOf reads a report of the suite.
func verdictsOf(t *testing.T, report string) (map[string]verdict, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, reportFile), []byte(report), 0o600); err != nil {
		t.Fatal(err)
	}
	return readVerdicts(dir)
}

// TestTheDocsHaveTheRecordedResults: the results in the docs come from recorded runs.
func TestTheDocsHaveTheRecordedResults(t *testing.T) {
	table, err := readSpecs("../../test/upstream/specs.yaml")
	if err != nil {
		t.Fatal(err)
	}
	results, err := readResults("../..")
	if err != nil {
		t.Fatal(err)
	}
	docs, err := os.ReadFile(filepath.Join("../..", docsFile))
	if err != nil {
		t.Fatal(err)
	}
	want, err := withTable(docs, table, results)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(docs, want) {
		t.Errorf("%s differs from %s: run go run ./hack/upstream -record after a run", docsFile, resultsFile)
	}
	for _, r := range results {
		if r.Commit == "" || r.Date == "" || r.Verdict == "" {
			t.Errorf("the result of %s is incomplete: %+v", r.Spec, r)
		}
	}
}

func TestRecord(t *testing.T) {
	root := t.TempDir()
	write := func(path, text string) {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("test/upstream/specs.yaml", "specs:\n- {name: A, upstream: a}\n"+
		"- {name: B, upstream: b, deviations: [smaller]}\n"+
		"- {name: C, upstream: c}\n- {name: D, upstream: d, cause: it needs a registry}\n")
	write(resultsFile, "- {spec: A, verdict: failed, took: 9s, date: 2026-11-01, commit: aaa, hosts: 3}\n"+
		"- {spec: gone, verdict: passed, took: 9s, date: 2026-11-01, commit: aaa, hosts: 3}\n")
	write(docsFile, "before\n"+beginMark+"old\n"+endMark+"after\n")
	write("bin/reports/upstream/"+reportFile, `[{"SpecReports": [
		{"ContainerHierarchyLabels": [["B"]], "State": "passed", "RunTime": 61000000000,
			"StartTime": "2026-11-23T03:00:00Z"},
		{"ContainerHierarchyLabels": [["C"]], "State": "interrupted", "RunTime": 1}]}]`)
	write("bin/reports/upstream/"+executionFile, "commit: bbb\nhosts: 8\n")
	if err := record(root); err != nil {
		t.Fatal(err)
	}
	docs, err := os.ReadFile(filepath.Join(root, docsFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"before\n", "| A | failed | 9s | 2026-11-01 | aaa |\n| B | passed | 1m1s | 2026-11-23 | bbb |\n| C | not run yet |",
		"- **B**: smaller\n", "- **D**: it needs a registry\n", "after\n",
	} {
		if !strings.Contains(string(docs), want) {
			t.Errorf("the docs lack %q:\n%s", want, docs)
		}
	}
	results, err := readResults(root)
	if err != nil || len(results) != 2 || results[1].Hosts != 8 {
		t.Errorf("the recorded results are %+v, error %v", results, err)
	}
	write("bin/reports/upstream/"+executionFile, "commit: bbb-dirty\nhosts: 8\n")
	if err := record(root); err == nil || !strings.Contains(err.Error(), "the sources had changes") {
		t.Errorf("recording a run of changed sources: got error %v", err)
	}
}

func TestWrap(t *testing.T) {
	text := "- " + strings.Repeat("word ", 40)
	for i, line := range strings.Split(strings.TrimSuffix(wrap(text), "\n"), "\n") {
		if len(line) > 110 || i > 0 && !strings.HasPrefix(line, "  word") {
			t.Errorf("line %d is %q", i, line)
		}
	}
}

func TestExtensionsAreInstalledOnce(t *testing.T) {
	chosen := []spec{{Name: "A"}, {Name: "B", Extension: updater}, {Name: "C", Extension: updater}}
	if got := strings.Join(extensions(chosen), " "); got != updater {
		t.Errorf("extensions are %q, want %q", got, updater)
	}
}

// TestCommitOf checks that results recorded by an earlier run do not make the sources dirty.
func TestCommitOf(t *testing.T) {
	root := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	write := func(path, text string) {
		t.Helper()
		full := filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o755), os.WriteFile(full, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	is := func(dirty bool) {
		t.Helper()
		commit, err := commitOf(t.Context(), root)
		if err != nil || strings.HasSuffix(commit, "-dirty") != dirty || len(strings.TrimSuffix(commit, "-dirty")) != 9 {
			t.Errorf("commitOf returned %q, error %v; want dirty: %t", commit, err, dirty)
		}
	}
	write(resultsFile, "a")
	write(docsFile, "a")
	write("plane/plane.go", "a")
	git("init", "-q")
	git("add", ".")
	git("commit", "-qm", "a")
	is(false)
	write(resultsFile, "b")
	write(docsFile, "b")
	is(false)
	write("plane/plane.go", "b")
	is(true)
}
