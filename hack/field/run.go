package main

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/checks"
	"github.com/capstan-dev/capstan/contract/source"
)

// limit is how long a run over one provider may take.
const limit = 5 * time.Second

// result is the result of a run over a checkout.
type result struct {
	findings []check.Finding
	failures []check.Failure
	took     time.Duration
	err      error
}

// run verifies the checkout of a provider.
func (p provider) run(checkouts string) result {
	begin := time.Now()
	releases, err := source.Open(filepath.Join(checkouts, p.Name, filepath.FromSlash(p.Path)))
	if err != nil {
		return result{err: err, took: time.Since(begin)}
	}
	report := check.Run(checks.All(), releases)
	for i := range report.Findings {
		report.Findings[i].File = p.below(checkouts, report.Findings[i].File)
	}
	got := result{findings: report.Findings, took: time.Since(begin)}
	for _, f := range report.Failures {
		if f.Check == check.Source {
			got.err = errors.New(f.Message)
		} else {
			got.failures = append(got.failures, f)
		}
	}
	return got
}

// below returns the path of a file below the checkout.
func (p provider) below(checkouts, file string) string {
	root := filepath.Join(checkouts, p.Name)
	if below, err := filepath.Rel(root, file); err == nil && !strings.HasPrefix(below, "..") {
		return filepath.ToSlash(below)
	}
	return file
}

// differences describes where a run differs from the data file.
func (p provider) differences(got result) []string {
	var all []string
	if got.took > limit {
		all = append(all, fmt.Sprintf("it took %s, more than %s", got.took.Round(time.Millisecond), limit))
	}
	switch {
	case got.err != nil && (p.Refused == "" || !strings.Contains(got.err.Error(), p.Refused)):
		return append(all, "it cannot be judged: "+got.err.Error())
	case got.err == nil && p.Refused != "":
		return append(all, "it can be judged, but the file says that it cannot: "+p.Refused)
	}
	for _, f := range got.failures {
		all = append(all, fmt.Sprintf("the check %s itself failed: %s", f.Check, f.Message))
	}
	judged := map[string]bool{}
	for _, one := range p.Findings {
		for _, where := range one.Places {
			judged[one.key(where)] = false
		}
	}
	for _, f := range got.findings {
		key := finding{Check: f.Check, Rule: f.Rule, Contract: f.Contract}.key(place(f.File, f.Object, f.Field))
		if _, ok := judged[key]; !ok {
			all = append(all, "not judged: "+key)
			continue
		}
		judged[key] = true
	}
	for _, key := range slices.Sorted(maps.Keys(judged)) {
		if !judged[key] {
			all = append(all, "not found: "+key)
		}
	}
	return all
}
