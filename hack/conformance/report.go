package main

import (
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"

	"github.com/capstan-dev/capstan/test/verdicts"
)

// The types of the JUnit report, in the form in which the suite itself writes it.
type (
	testSuites struct {
		XMLName  xml.Name    `xml:"testsuites"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Skipped  int         `xml:"disabled,attr"`
		Suites   []testSuite `xml:"testsuite"`
	}
	testSuite struct {
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Skipped  int        `xml:"skipped,attr"`
		Seconds  float64    `xml:"time,attr"`
		Cases    []testCase `xml:"testcase"`
	}
	testCase struct {
		Name      string   `xml:"name,attr"`
		ClassName string   `xml:"classname,attr"`
		Status    string   `xml:"status,attr"`
		Seconds   float64  `xml:"time,attr"`
		Skipped   *message `xml:"skipped,omitempty"`
		Failure   *message `xml:"failure,omitempty"`
	}
	message struct {
		Message string `xml:"message,attr,omitempty"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

// suiteName is the name that the suite uses for itself.
const suiteName = "Kubernetes e2e suite"

// report writes the verdicts of all parts as one report.
func (o *options) report(all []verdicts.Verdict, level verdicts.Level) error {
	data, err := junit(all)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(o.reports(), "junit_01.xml"), data, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.reports(), "table.txt"), []byte(verdicts.Table(all, nil, level)), 0o644)
}

// junit returns the report. Pure.
func junit(all []verdicts.Verdict) ([]byte, error) {
	suite := testSuite{
		Name: suiteName, Tests: len(all), Failures: verdicts.Count(all, verdicts.Failed),
		Skipped: verdicts.Count(all, verdicts.Skipped),
	}
	for _, v := range all {
		c := testCase{Name: "[It] " + v.Name, ClassName: suiteName, Status: string(v.Outcome), Seconds: v.Seconds}
		suite.Seconds += v.Seconds
		switch v.Outcome {
		case verdicts.Failed:
			c.Failure = &message{Type: "failed", Text: v.Message}
		case verdicts.Skipped:
			c.Skipped = &message{Message: "skipped - " + v.Message}
		case verdicts.Passed:
		}
		suite.Cases = append(suite.Cases, c)
	}
	data, err := xml.MarshalIndent(testSuites{
		Tests: suite.Tests, Failures: suite.Failures, Skipped: suite.Skipped, Suites: []testSuite{suite},
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the report: %w", err)
	}
	return append([]byte(xml.Header), data...), nil
}
