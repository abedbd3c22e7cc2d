package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/capstan-dev/capstan/contract/check"
)

// A suite of JUnit: one case for each check.
type (
	junitSuite struct {
		XMLName  xml.Name    `xml:"testsuite"`
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string     `xml:"classname,attr"`
		Name    string     `xml:"name,attr"`
		Failure *junitText `xml:"failure"`
		Error   *junitText `xml:"error"`
		Skipped *junitText `xml:"skipped"`
	}
	junitText struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

func writeJUnit(w io.Writer, r *check.Report, checks []*check.Check) error {
	suite := junitSuite{Name: "capstan verify", Cases: []junitCase{}}
	for _, c := range checks {
		suite.Tests++
		result := junitResult(r, c)
		switch {
		case result.Error != nil:
			suite.Errors++
		case result.Failure != nil:
			suite.Failures++
		case result.Skipped != nil:
			suite.Skipped++
		}
		suite.Cases = append(suite.Cases, result)
	}
	if n := junitOthers(r, checks); n != nil {
		suite.Tests, suite.Failures, suite.Cases = suite.Tests+1, suite.Failures+1, append(suite.Cases, *n)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	if err := encoder.Encode(suite); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// junitResult returns the case of one check.
func junitResult(r *check.Report, c *check.Check) junitCase {
	result := junitCase{Class: "capstan.verify", Name: c.ID}
	result.Failure = junitFailure(r, func(f check.Finding) bool { return f.Check == c.ID })
	for _, f := range r.Failures {
		if f.Check == c.ID {
			result.Error = &junitText{"the check failed itself", f.Message}
		}
	}
	skipped := 0
	for _, s := range r.Skipped {
		if s.Check == c.ID {
			skipped++
		}
	}
	if skipped == len(r.Releases) && skipped > 0 {
		result.Skipped = &junitText{Message: "no release has what the check needs"}
	}
	return result
}

// junitOthers returns a case for findings of no check, which come from the baseline. Nil: there are none.
func junitOthers(r *check.Report, checks []*check.Check) *junitCase {
	known := map[string]bool{}
	for _, c := range checks {
		known[c.ID] = true
	}
	failure := junitFailure(r, func(f check.Finding) bool { return !known[f.Check] })
	if failure == nil {
		return nil
	}
	return &junitCase{Class: "capstan.verify", Name: Baseline, Failure: failure}
}

func junitFailure(r *check.Report, of func(check.Finding) bool) *junitText {
	var b strings.Builder
	n := 0
	for _, f := range r.Findings {
		if of(f) {
			n++
			fmt.Fprintf(&b, "%s: %s: %s\n%s\n", f.Position, named(f), f.Message, f.Fix)
		}
	}
	if n == 0 {
		return nil
	}
	return &junitText{count(n, "finding"), b.String()}
}
