package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// execution describes a run.
type execution struct {
	// Commit is the commit of our sources, with "-dirty" if they had changes.
	Commit string `json:"commit"`
	// Hosts is the size of the plane's inventory.
	Hosts int `json:"hosts"`
	// ClusterAPI is the source of the specs, if not the module that test/upstream requires.
	ClusterAPI string `json:"clusterAPI,omitempty"`
}

// executionFile is the file with the execution, in the directory of artifacts.
const executionFile = "execution.yaml"

// about describes the run that is about to start.
func (o options) about(ctx context.Context) (execution, error) {
	commit, err := commitOf(ctx, o.root)
	if err != nil {
		return execution{}, fmt.Errorf("asking git for the commit: %w", err)
	}
	return execution{Commit: commit, Hosts: o.hosts, ClusterAPI: o.clusterAPI}, nil
}

// commitOf returns the commit of the sources, with "-dirty" if they have changes. Results of earlier runs don't count
// as changes.
func commitOf(ctx context.Context, root string) (string, error) {
	git := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir = root
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}
	commit, err := git("rev-parse", "--short=9", "HEAD")
	if err != nil {
		return "", err
	}
	changes, err := git("status", "--porcelain", "--untracked-files=no", "--", ".",
		":(exclude)"+resultsFile, ":(exclude)"+docsFile)
	if err == nil && changes != "" {
		commit += "-dirty"
	}
	return commit, err
}

func (e execution) write(artifacts string) error {
	data, err := yaml.Marshal(e)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(artifacts, executionFile), data, 0o600)
}

// result is the result of the last recorded run of a spec.
type result struct {
	Spec    string `json:"spec"`
	Verdict string `json:"verdict"`
	// Took is how long it ran, in the form of Go's durations.
	Took string `json:"took"`
	// Date is the day of the run.
	Date      string `json:"date"`
	execution `json:",inline"`
}

// resultsFile has the recorded results; docsFile has their table, between the two marks.
const (
	resultsFile = "test/upstream/results.yaml"
	docsFile    = "docs/upstream-e2e.md"
	beginMark   = "<!-- results: go run ./hack/upstream -record -->\n"
	endMark     = "<!-- end of results -->\n"
)

// record copies the verdicts of the last run to the results and to the table in the docs. Results of specs that the run
// left out stay.
func record(root string) error {
	artifacts := filepath.Join(root, "bin", "reports", "upstream")
	data, err := os.ReadFile(filepath.Join(artifacts, executionFile))
	if err != nil {
		return fmt.Errorf("there is no run to record: %w", err)
	}
	var about execution
	if err := yaml.UnmarshalStrict(data, &about); err != nil {
		return fmt.Errorf("reading what ran: %w", err)
	}
	if strings.HasSuffix(about.Commit, "-dirty") {
		return fmt.Errorf("the sources had changes, so nobody can repeat the run: commit them, and run the specs again")
	}
	verdicts, err := readVerdicts(artifacts)
	if err != nil {
		return err
	}
	table, err := readSpecs(filepath.Join(root, "test", "upstream", "specs.yaml"))
	if err != nil {
		return err
	}
	results, err := readResults(root)
	if err != nil {
		return err
	}
	results = taken(table, results, verdicts, about)
	if data, err = yaml.Marshal(results); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, resultsFile), data, 0o644); err != nil {
		return err
	}
	docs, err := os.ReadFile(filepath.Join(root, docsFile))
	if err != nil {
		return err
	}
	if docs, err = withTable(docs, table, results); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, docsFile), docs, 0o644)
}

func readResults(root string) (results []result, err error) {
	data, err := os.ReadFile(filepath.Join(root, resultsFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := yaml.UnmarshalStrict(data, &results); err != nil {
		return nil, fmt.Errorf("reading %s: %w", resultsFile, err)
	}
	return results, nil
}

// taken returns the results in the order of the table, with new verdicts replacing old ones.
func taken(table []spec, results []result, verdicts map[string]verdict, about execution) (all []result) {
	for _, s := range table {
		i := slices.IndexFunc(results, func(r result) bool { return r.Spec == s.Name })
		v, ran := verdicts[s.Name]
		switch {
		case ran && v.State != "interrupted" && v.State != "aborted":
			all = append(all, result{
				Spec: s.Name, Verdict: v.State, Took: v.Duration.Round(time.Second).String(),
				Date: v.Began.UTC().Format(time.DateOnly), execution: about,
			})
		case i >= 0:
			all = append(all, results[i])
		}
	}
	return all
}

// withTable puts the table of results, and the list of specs that are not called, between the marks.
func withTable(docs []byte, table []spec, results []result) ([]byte, error) {
	before, rest, begun := bytes.Cut(docs, []byte(beginMark))
	_, after, ended := bytes.Cut(rest, []byte(endMark))
	if !begun || !ended {
		return nil, fmt.Errorf("%s has no place for the results: it must be between %q and %q", docsFile, beginMark, endMark)
	}
	var out bytes.Buffer
	out.WriteString("\n| Spec | Verdict | Time | Date | Commit |\n|---|---|---|---|---|\n")
	for _, s := range table {
		i := slices.IndexFunc(results, func(r result) bool { return r.Spec == s.Name })
		switch {
		case s.Cause != "":
		case i < 0:
			fmt.Fprintf(&out, "| %s | not run yet | | | |\n", s.Name)
		default:
			r := results[i]
			fmt.Fprintf(&out, "| %s | %s | %s | %s | %s |\n", s.Name, r.Verdict, r.Took, r.Date, r.Commit)
		}
	}
	list := func(title string, lines func(spec) []string) {
		fmt.Fprintf(&out, "\n%s:\n\n", title)
		for _, s := range table {
			for _, text := range lines(s) {
				out.WriteString(wrap("- **" + s.Name + "**: " + text))
			}
		}
	}
	list("Deviations", func(s spec) []string {
		if s.Cause != "" {
			return nil
		}
		return s.Deviations
	})
	list("Not called, and why", func(s spec) []string {
		if s.Cause == "" {
			return nil
		}
		return []string{s.Cause}
	})
	out.WriteString("\n")
	return slices.Concat(before, []byte(beginMark), out.Bytes(), []byte(endMark), after), nil
}

// wrap breaks an item of a list into lines of at most 110 columns.
func wrap(text string) string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > 110 {
			lines, line = append(lines, line), " "
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return strings.Join(append(lines, line), "\n") + "\n"
}
