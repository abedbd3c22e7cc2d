// Package report writes the findings of capstan verify, or of another tool with findings of the same form: as text for
// people, JSON, SARIF for code hosts or JUnit for CI systems. It also implements the baseline: the findings that a
// project accepts, with reasons.
package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/contract/check"
)

// Format is an output format.
type Format string

// The formats.
const (
	Text  Format = "text"
	JSON  Format = "json"
	SARIF Format = "sarif"
	JUnit Format = "junit"
)

// Formats returns all formats.
func Formats() []Format { return []Format{Text, JSON, SARIF, JUnit} }

// Valid returns a [*FormatError] if the format is unknown.
func (f Format) Valid() error {
	if f == "" || slices.Contains(Formats(), f) {
		return nil
	}
	return &FormatError{f}
}

// FormatError reports an unknown format.
type FormatError struct{ Format Format }

// Error names the format.
func (e *FormatError) Error() string {
	return fmt.Sprintf("unknown output format %q", string(e.Format))
}

// Hint names the formats that exist.
func (e *FormatError) Hint() string { return "use text, json, sarif or junit" }

// Write writes a report. The checks are those that ran.
func Write(w io.Writer, format Format, r *check.Report, checks []*check.Check) error {
	switch format {
	case Text, "":
		return writeText(w, r)
	case JSON:
		return writeJSON(w, r)
	case SARIF:
		return writeJSON(w, sarif(r, checks))
	case JUnit:
		return writeJUnit(w, r, checks)
	}
	return &FormatError{format}
}

// toolOf returns the command that made a report.
func toolOf(r *check.Report) string { return cmp.Or(r.Tool, "capstan verify") }

func writeJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// writeText writes findings as compilers write errors, with what each finding causes.
func writeText(w io.Writer, r *check.Report) error {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s: %s %s: %s\n", f.Position, f.Level, named(f), f.Message)
		if f.Object != "" {
			fmt.Fprintf(&b, "    in:  %s\n", strings.TrimSpace(f.Object+" "+f.Field))
		}
		fmt.Fprintf(&b, "    why: %s\n    fix: %s\n    see: %s\n", f.Why, f.Fix, f.Link)
	}
	for _, f := range r.Failures {
		fmt.Fprintln(&b, f)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// named returns the rule, contract version and check of a finding.
func named(f check.Finding) string {
	rule := f.Rule
	if f.Contract != "" {
		rule += " " + f.Contract
	}
	return strings.TrimSpace(rule + " (" + f.Check + ")")
}

// Summary says in one line what was checked and found.
func Summary(r *check.Report) string {
	text := fmt.Sprintf("%s, %s in %s", count(len(r.Findings), "finding"), count(r.Checks, "check"),
		count(len(r.Releases), "release"))
	unread := 0
	for _, f := range r.Failures {
		if f.Check == check.Source {
			unread++
		}
	}
	if unread > 0 {
		text += fmt.Sprintf("; components of %d not read", unread)
	}
	if n := len(r.Failures) - unread; n > 0 {
		text += fmt.Sprintf("; %s failed", count(n, "check"))
	}
	return text
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Explain writes what a check looks for, and why.
func Explain(w io.Writer, c *check.Check) error {
	_, err := fmt.Fprintf(
		w,
		"%s (%s, contract %s)\n%s\n\nWhy:   %s\nFix:   %s\nNeeds: %s\nRules: %s\nSee:   %s\n",
		c.ID,
		c.Level,
		strings.Join(c.Contracts, ", "),
		c.Doc,
		c.Why,
		c.Fix,
		needs(c),
		strings.Join(c.Rules, ", "),
		c.Link(),
	)
	return err
}

func needs(c *check.Check) string {
	all := make([]string, 0, len(c.Needs))
	for _, n := range c.Needs {
		all = append(all, string(n))
	}
	return strings.Join(all, ", ")
}
