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

// Live returns the provider rules that files cannot show, or cannot show completely. Checking them needs a running
// provider, or somebody who reads its documents. Each rule comes with its live checks and the sequences that a live
// check plays.
func Live() []check.Live {
	var all []check.Live
	for _, r := range Rules() {
		found := checks.Find(r.ID)
		var live []string
		for _, c := range found {
			if c.Drive != nil {
				live = append(live, c.ID)
			}
		}
		if r.Of != Provider || r.Level == May || !slices.Contains(r.Versions(), V1Beta2) ||
			len(found) > 0 && len(live) == 0 {
			continue
		}
		by := check.ByRunning
		if methods := r.Methods(); !slices.Contains(methods, Behaviour) && !slices.Contains(methods, API) {
			by = check.ByReading
		}
		shown := check.Live{Rule: r.ID, Level: check.Level(r.Level), By: by, Text: r.Text, Why: Unseen(r.ID), Checks: live}
		for _, s := range Sequences() {
			if slices.Contains(s.Rules, r.ID) {
				shown.Sequences = append(shown.Sequences, s.ID)
			}
		}
		all = append(all, shown)
	}
	return all
}

// List writes all checks, then the rules that only a running provider or its documents can show.
func List(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "CHECK\tLEVEL\tRULES\tWHAT MUST BE SO")
	for _, c := range checks.All() {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", c.ID, c.Level, strings.Join(c.Rules, " "), c.Doc)
	}
	fmt.Fprintln(table, "\t\t\t")
	fmt.Fprintln(table, "NOT IN FILES\tLEVEL\tSHOWN BY\tRULE")
	for _, l := range Live() {
		by := l.By
		if how := append(l.Checks, l.Sequences...); len(how) > 0 {
			by += ": " + strings.Join(how, ", ")
		}
		text := l.Text
		if l.Why != "" {
			text += " [" + l.Why + "]"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", l.Rule, l.Level, by, text)
	}
	return table.Flush()
}
