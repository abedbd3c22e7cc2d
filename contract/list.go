package contract

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/checks"
)

// Live returns the rules of providers that files do not show: only a running provider does, or people who read its
// documents.
func Live() []check.Live {
	var all []check.Live
	for _, r := range Rules() {
		if r.Of != Provider || r.Level == May || !slices.Contains(r.Versions(), V1Beta2) || len(checks.Find(r.ID)) > 0 {
			continue
		}
		by := check.ByRunning
		if methods := r.Methods(); !slices.Contains(methods, Behaviour) && !slices.Contains(methods, API) {
			by = check.ByReading
		}
		all = append(all, check.Live{Rule: r.ID, Level: check.Level(r.Level), By: by, Text: r.Text})
	}
	return all
}

// List writes all checks, and the rules that only a running provider or its documents show.
func List(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "CHECK\tLEVEL\tRULES\tWHAT MUST BE SO")
	for _, c := range checks.All() {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", c.ID, c.Level, strings.Join(c.Rules, " "), c.Doc)
	}
	fmt.Fprintln(table, "\t\t\t")
	fmt.Fprintln(table, "NOT IN FILES\tLEVEL\tSHOWN BY\tRULE")
	for _, l := range Live() {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", l.Rule, l.Level, l.By, l.Text)
	}
	return table.Flush()
}
