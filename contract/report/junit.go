package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/capstan-dev/capstan/contract/check"
)

// A JUnit test suite with one case per check.
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
	suite := junitSuite{Name: toolOf(r), Cases: []junitCase{}}
	for _, c := range checks {
		suite.add(junitResult(r, c))
	}
	for _, other := range junitOthers(r, checks) {
		suite.add(other)
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

func (s *junitSuite) add(result junitCase) {
	s.Tests++
	switch {
	case result.Error != nil:
		s.Errors++
	case result.Failure != nil:
		s.Failures++
	case result.Skipped != nil:
		s.Skipped++
	}
	s.Cases = append(s.Cases, result)
}

// junitClass returns the class name by which build systems group a tool's cases.
func junitClass(r *check.Report) string { return strings.ReplaceAll(toolOf(r), " ", ".") }

// junitResult returns the case of one check.
func junitResult(r *check.Report, c *check.Check) junitCase {
	result := junitCase{Class: junitClass(r), Name: c.ID}
	result.Failure = junitFailure(r, func(f check.Finding) bool { return f.Check == c.ID })
	for _, f := range r.Failures {
		if f.Check == c.ID {
			result.Error = &junitText{"the check itself failed", f.Message}
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

// junitOthers returns cases for everything that belongs to no check: findings about the baseline, and what could not be
// checked.
func junitOthers(r *check.Report, checks []*check.Check) []junitCase {
	known := map[string]bool{}
	for _, c := range checks {
		known[c.ID] = true
	}
	var all []junitCase
	if failure := junitFailure(r, func(f check.Finding) bool { return !known[f.Check] }); failure != nil {
		all = append(all, junitCase{Class: junitClass(r), Name: Baseline, Failure: failure})
	}
	for _, f := range r.Failures {
		if !known[f.Check] {
			all = append(all, junitCase{
				Class: junitClass(r), Name: f.Check, Error: &junitText{"something could not be checked", f.String()},
			})
		}
	}
	return all
}

func junitFailure(r *check.Report, of func(check.Finding) bool) *junitText {
	var b strings.Builder
	n := 0
	for _, f := range r.Findings {
		if of(f) {
			n++
			fmt.Fprintf(&b, "%s: %s: %s\n%s\n", f.Position, named(f), f.Message, f.Fix)
			if !f.Edit.IsZero() {
				fmt.Fprintf(&b, "%s: --fix writes %s in the place of %s\n", f.Edit.Position, f.Edit.New, f.Edit.Old)
			}
		}
	}
	if n == 0 {
		return nil
	}
	return &junitText{count(n, "finding"), b.String()}
}
