package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Levels: which ids the user who ran the benchmark can give to containers.
const (
	levelRoot        = "root"
	levelSubordinate = "subordinate ids"
	levelOneID       = "one id"
)

// figure is one measured value.
type figure struct {
	ID    string  `json:"id"`
	Name  string  `json:"name"`
	Level string  `json:"level"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Bound and Aim are the maxima of Value, or the minima if AtLeast is set. 0 means none.
	Bound   float64 `json:"bound,omitempty"`
	Aim     float64 `json:"aim,omitempty"`
	AtLeast bool    `json:"atLeast,omitempty"`
	// Commit and Date say which sources were measured and when; Load is how many processes of the machine wanted a
	// processor at that time.
	Commit string    `json:"commit"`
	Date   time.Time `json:"date"`
	Load   float64   `json:"load"`
	// Where says where the time or the memory goes, one line each.
	Where []string `json:"where,omitempty"`
}

// newFigure returns a figure of the catalog. It panics if the catalog has no such id.
func newFigure(id, level string, value float64, where ...string) figure {
	w, ok := find(id)
	if !ok {
		panic("no figure " + id + " is in the catalog")
	}
	return figure{
		ID: id, Name: w.name, Level: level, Value: value, Unit: w.unit, Bound: w.bound, Aim: w.aim, AtLeast: w.atLeast,
		Date: time.Now().UTC().Truncate(time.Second), Load: load(), Where: where,
	}
}

// misses reports whether the value is on the wrong side of a limit. Pure.
func (f figure) misses(limit float64) bool {
	switch {
	case limit == 0:
		return false
	case f.AtLeast:
		return f.Value < limit
	}
	return f.Value > limit
}

// verdict says whether the value keeps its limits.
func (f figure) verdict() string {
	switch {
	case f.misses(f.Bound):
		return "MISSES ITS BOUND"
	case f.misses(f.Aim):
		return "misses its aim"
	}
	return ""
}

// show formats a number with three digits, or without a fraction if it has more digits before the point.
func show(value float64) string {
	digits := 2
	switch {
	case value >= 100:
		digits = 0
	case value >= 10:
		digits = 1
	}
	return strconv.FormatFloat(value, 'f', digits, 64)
}

// limit returns a limit as text.
func (f figure) limit(value float64) string {
	if value == 0 {
		return ""
	}
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(value, 'f', 2, 64), "0"), ".")
}

// inOrder sorts figures in the order of the catalog, and figures with the same id by level.
func inOrder(all []figure) []figure {
	place := map[string]int{}
	for _, g := range catalog {
		for _, w := range g.figures {
			place[w.id] = len(place)
		}
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b figure) int {
		return cmp.Or(cmp.Compare(place[a.ID], place[b.ID]), -cmp.Compare(a.Level, b.Level))
	})
	return all
}

// printTable prints figures for people.
func printTable(out io.Writer, all []figure) error {
	w := tabwriter.NewWriter(out, 0, 4, 3, ' ', 0)
	fmt.Fprintln(w, "FIGURE\tLEVEL\tVALUE\tUNIT\tBOUND\tAIM\tLOAD\t")
	for _, f := range inOrder(all) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%.1f\t%s\n", f.Name, f.Level, show(f.Value), f.Unit, f.limit(f.Bound),
			f.limit(f.Aim), f.Load, f.verdict())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out, "\nWhat these values consist of:")
	for _, f := range inOrder(all) {
		if len(f.Where) > 0 {
			fmt.Fprintf(out, "  %s (%s)\n    %s\n", f.Name, f.Level, strings.Join(f.Where, "\n    "))
		}
	}
	return nil
}

// printJSON prints figures for machines.
func printJSON(out io.Writer, all []figure) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(inOrder(all))
}
