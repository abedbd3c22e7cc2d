// Package verdicts reads the results of other projects' test suites, and compares them with lists of tests that are
// expected not to pass.
package verdicts

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

// Outcome is the result of a test.
type Outcome string

// The outcomes.
const (
	Passed  Outcome = "passed"
	Failed  Outcome = "failed"
	Skipped Outcome = "skipped"
)

// Verdict is a suite's result for one test.
type Verdict struct {
	Name    string  `json:"name"`
	Outcome Outcome `json:"outcome"`
	// Seconds is how long the test took.
	Seconds float64 `json:"seconds"`
	// Message says why it failed or was skipped.
	Message string `json:"message,omitempty"`
}

// junit is the part of Ginkgo's JUnit report from which verdicts are read.
type junit struct {
	Suites []struct {
		Cases []struct {
			Name    string  `xml:"name,attr"`
			Status  string  `xml:"status,attr"`
			Time    float64 `xml:"time,attr"`
			Skipped *struct {
				Message string `xml:"message,attr"`
			} `xml:"skipped"`
			Failure *failure `xml:"failure"`
			Error   *failure `xml:"error"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

// failure says why a test failed; Kubernetes' suites leave out the message.
type failure struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

func (f *failure) why() string { return cmp.Or(f.Message, strings.TrimSpace(f.Text)) }

var labels = regexp.MustCompile(`^\[It\] `)

// suiteTimeout is Ginkgo's text for the test that was running when the time of the whole suite was over.
const suiteTimeout = "A suite timeout occurred"

// ReadJUnit reads Ginkgo's JUnit report. It leaves out tests that were not selected; Ginkgo reports these as skipped
// without a message. It also leaves out tests that the end of the suite interrupted, and the suite's own steps unless
// they failed.
func ReadJUnit(from io.Reader) ([]Verdict, error) {
	var report junit
	if err := xml.NewDecoder(from).Decode(&report); err != nil {
		return nil, fmt.Errorf("reading the JUnit report: %w", err)
	}
	var all []Verdict
	for _, suite := range report.Suites {
		for _, c := range suite.Cases {
			v := Verdict{Name: labels.ReplaceAllString(c.Name, ""), Outcome: Passed, Seconds: c.Time}
			switch {
			case c.Failure != nil:
				v.Outcome, v.Message = Failed, c.Failure.why()
			case c.Error != nil:
				v.Outcome, v.Message = Failed, c.Error.why()
			case c.Skipped != nil:
				v.Outcome, v.Message = Skipped, strings.TrimPrefix(c.Skipped.Message, "skipped - ")
				if v.Message == "skipped" || v.Message == "" {
					continue
				}
			}
			if c.Status == "interrupted" || strings.Contains(v.Message, suiteTimeout) {
				continue
			}
			if labels.MatchString(c.Name) || v.Outcome == Failed {
				all = append(all, v)
			}
		}
	}
	slices.SortFunc(all, func(a, b Verdict) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// ReadFile is like [ReadJUnit] for a file.
func ReadFile(path string) ([]Verdict, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadJUnit(f)
}

// Count returns how many verdicts have an outcome. Pure.
func Count(all []Verdict, outcome Outcome) int {
	n := 0
	for _, v := range all {
		if v.Outcome == outcome {
			n++
		}
	}
	return n
}
