package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"sigs.k8s.io/yaml"
)

// spec is one of upstream's specs, as listed in the table of specs.
type spec struct {
	Name string `json:"name"`
	// Upstream is upstream's function that the spec runs.
	Upstream string `json:"upstream"`
	// Extension is the extension that the spec needs in the plane.
	Extension string `json:"extension,omitempty"`
	// Bundles are the bundles of other versions that the spec needs. An entry is the name of a file in kube that
	// contains the version.
	Bundles []string `json:"bundles,omitempty"`
	// Deviations say how the set-up differs from upstream's own.
	Deviations []string `json:"deviations,omitempty"`
	// Cause says why the suite does not call the spec. It is empty if the suite calls it.
	Cause string `json:"cause,omitempty"`
}

// readSpecs reads the table of specs.
func readSpecs(path string) ([]spec, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var table struct {
		Specs []spec `json:"specs"`
	}
	if err := yaml.UnmarshalStrict(data, &table); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return table.Specs, nil
}

// choose returns the named specs, or all specs that the suite calls if no name is given.
func choose(table []spec, names []string) (chosen []spec, err error) {
	if len(names) == 0 {
		for _, s := range table {
			if s.Cause == "" {
				chosen = append(chosen, s)
			}
		}
		return chosen, nil
	}
	for _, name := range names {
		found := false
		for _, s := range table {
			if s.Name != name {
				continue
			}
			if s.Cause != "" {
				return nil, fmt.Errorf("spec %s is not called: %s", name, s.Cause)
			}
			chosen, found = append(chosen, s), true
		}
		if !found {
			return nil, fmt.Errorf("there is no spec %s: see test/upstream/specs.yaml", name)
		}
	}
	return chosen, nil
}

// verdict is how a spec ended.
type verdict struct {
	State    string
	Duration time.Duration
	Message  string
	// Began is when the spec began.
	Began time.Time
}

// reportFile is the suite's JSON report in the directory of artifacts.
const reportFile = "report.json"

// readVerdicts reads the suite's JSON report. Each spec has its name as the first label.
func readVerdicts(artifacts string) (map[string]verdict, error) {
	data, err := os.ReadFile(filepath.Join(artifacts, reportFile))
	if err != nil {
		return nil, fmt.Errorf("reading the suite's report: %w", err)
	}
	var suites []struct {
		SpecReports []struct {
			ContainerHierarchyLabels [][]string
			State                    string
			StartTime                time.Time
			RunTime                  time.Duration
			Failure                  struct{ Message string }
		}
	}
	if err := json.Unmarshal(data, &suites); err != nil {
		return nil, fmt.Errorf("reading the suite's report: %w", err)
	}
	verdicts := map[string]verdict{}
	for _, s := range suites {
		for _, r := range s.SpecReports {
			if r.State == "skipped" || len(r.ContainerHierarchyLabels) == 0 || len(r.ContainerHierarchyLabels[0]) == 0 {
				continue
			}
			verdicts[r.ContainerHierarchyLabels[0][0]] = verdict{
				State:    r.State,
				Duration: r.RunTime,
				Message:  r.Failure.Message,
				Began:    r.StartTime,
			}
		}
	}
	return verdicts, nil
}

// report writes the table of specs with their verdicts, and returns how many of the chosen specs did not pass.
func report(out io.Writer, table, chosen []spec, verdicts map[string]verdict) (failed int) {
	asked := map[string]bool{}
	for _, s := range chosen {
		asked[s.Name] = true
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SPEC\tVERDICT\tTIME")
	for _, s := range table {
		v, ran := verdicts[s.Name]
		switch {
		case ran:
			fmt.Fprintf(w, "%s\t%s\t%s\n", s.Name, v.State, v.Duration.Round(time.Second))
		case asked[s.Name]:
			fmt.Fprintf(w, "%s\tnot run\t\n", s.Name)
		case s.Cause != "":
			fmt.Fprintf(w, "%s\tnot called\t\n", s.Name)
		}
		if asked[s.Name] && v.State != "passed" {
			failed++
		}
	}
	w.Flush()
	for _, s := range table {
		if s.Cause != "" {
			fmt.Fprintf(out, "\n%s is not called: %s\n", s.Name, s.Cause)
		}
		if asked[s.Name] {
			for _, d := range s.Deviations {
				fmt.Fprintf(out, "\n%s deviates: %s\n", s.Name, d)
			}
		}
	}
	return failed
}
