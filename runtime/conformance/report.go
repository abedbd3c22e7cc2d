package conformance

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Verdict is the outcome of a check.
type Verdict string

// The verdicts.
const (
	Passed  Verdict = "passed"
	Warned  Verdict = "warning"
	Failed  Verdict = "failed"
	Skipped Verdict = "skipped"
)

// Report is what the checks found.
type Report struct {
	// URL of the extension.
	URL string `json:"url"`
	// Started is when the first check began.
	Started time.Time `json:"started"`
	// Took is how long all checks took, in nanoseconds.
	Took time.Duration `json:"took"`
	// Results, in the order of the checks, then of the handlers.
	Results []Result `json:"results"`
	// Left describes what could not be checked; nil if everything was.
	Left *Left `json:"left,omitempty"`
}

// Result is the result of one check for the server or one handler.
type Result struct {
	Check
	// Handler that was checked; empty for the server as a whole.
	Handler string `json:"handler,omitempty"`
	// Verdict of the check.
	Verdict Verdict `json:"verdict"`
	// Message is the reason, unless the check passed.
	Message string `json:"message,omitempty"`
	// Stack of a check that panicked.
	Stack string `json:"stack,omitempty"`
	// Took is how long the check took, in nanoseconds.
	Took time.Duration `json:"took"`
}

// warning is an error that does not fail a check.
type warning struct{ text string }

func (w *warning) Error() string { return w.text }

// skipped is why a check did not run.
type skipped struct{ text string }

func (s *skipped) Error() string { return s.text }

func warn(format string, args ...any) error { return &warning{fmt.Sprintf(format, args...)} }
func skip(text string) error                { return &skipped{text} }

func (r *Report) add(check Check, h *handler, found result) {
	one := Result{Check: check, Verdict: Passed, Took: found.took}
	if h != nil {
		one.Handler = h.name
	}
	var warned *warning
	var left *skipped
	var broken *panicked
	switch {
	case found.err == nil:
	case errors.As(found.err, &broken):
		one.Verdict, one.Message, one.Stack = Failed, clipped(found.err.Error()), string(broken.stack)
	case errors.As(found.err, &warned):
		one.Verdict, one.Message = Warned, clipped(found.err.Error())
	case errors.As(found.err, &left):
		one.Verdict, one.Message = Skipped, found.err.Error()
	default:
		one.Verdict, one.Message = Failed, clipped(found.err.Error())
	}
	r.Results = append(r.Results, one)
}

// Count returns how many checks have this verdict.
func (r *Report) Count(v Verdict) int {
	n := 0
	for _, result := range r.Results {
		if result.Verdict == v {
			n++
		}
	}
	return n
}

// OK reports whether everything was checked and no check failed. If strict is true, a warning counts as a failure.
func (r *Report) OK(strict bool) bool {
	return r.Left == nil && r.Count(Failed) == 0 && (!strict || r.Count(Warned) == 0)
}

// WriteText writes the report for people, with one line for each check.
func (r *Report) WriteText(w io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "Extension at %s\n", r.URL)
	previous := ""
	for i, result := range r.Results {
		if i == 0 || result.Handler != previous {
			where := "the server"
			if result.Handler != "" {
				where = "handler " + result.Handler
			}
			fmt.Fprintf(&text, "\n%s\n", where)
		}
		previous = result.Handler
		fmt.Fprintf(&text, "  %-8s %-18s %s\n", result.Verdict, result.Name, strings.Join(result.Rules, " "))
		for _, more := range []string{result.Message, strings.TrimSuffix(result.Stack, "\n")} {
			if more == "" {
				continue
			}
			for line := range strings.SplitSeq(more, "\n") {
				fmt.Fprintf(&text, "           %s\n", line)
			}
		}
	}
	if r.Left != nil {
		fmt.Fprintf(&text, "\nNot complete: %s\n", r.Left)
	}
	fmt.Fprintf(&text, "\n%d passed, %d warnings, %d failed, %d skipped\n", r.Count(Passed), r.Count(Warned),
		r.Count(Failed), r.Count(Skipped))
	_, err := io.WriteString(w, text.String())
	return err
}

// WriteJSON writes the report for programs.
func (r *Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     string      `xml:"time,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string    `xml:"classname,attr"`
	Name    string    `xml:"name,attr"`
	Time    string    `xml:"time,attr"`
	Failure *junitWhy `xml:"failure,omitempty"`
	Skipped *junitWhy `xml:"skipped,omitempty"`
	Output  string    `xml:"system-out,omitempty"`
}

type junitWhy struct {
	Message string `xml:"message,attr"`
	Stack   string `xml:",chardata"`
}

// WriteJUnit writes the report as JUnit XML, which build systems display. A warning is the output of a passed case.
func (r *Report) WriteJUnit(w io.Writer) error {
	seconds := func(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
	suite := junitSuite{
		Name: "runtime extension " + r.URL, Tests: len(r.Results), Failures: r.Count(Failed), Skipped: r.Count(Skipped),
		Time: seconds(r.Took),
	}
	for _, result := range r.Results {
		one := junitCase{
			Class: "server", Name: result.Name + " " + strings.Join(result.Rules, " "), Time: seconds(result.Took),
		}
		if result.Handler != "" {
			one.Class = "handler." + result.Handler
		}
		switch result.Verdict {
		case Failed:
			one.Failure = &junitWhy{Message: result.Message, Stack: result.Stack}
		case Skipped:
			one.Skipped = &junitWhy{Message: result.Message}
		case Warned:
			one.Output = "warning: " + result.Message
		}
		suite.Cases = append(suite.Cases, one)
	}
	if r.Left != nil {
		suite.Tests, suite.Failures = suite.Tests+1, suite.Failures+1
		suite.Cases = append(suite.Cases, junitCase{
			Class: "server", Name: "complete", Time: seconds(0), Failure: &junitWhy{Message: r.Left.String()},
		})
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
