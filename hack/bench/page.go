package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// recordFile keeps the latest value of each figure; pageFile shows these values.
const (
	recordFile = "hack/bench/figures.json"
	pageFile   = "docs/figures.md"
)

// readRecord reads figures that printJSON has printed.
func readRecord(path string) ([]figure, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []figure
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return all, nil
}

// merge returns the figures of both lists. A later figure replaces one with the same id and level. Pure.
func merge(before, later []figure) []figure {
	type key struct{ id, level string }
	var all []figure
	has := map[key]bool{}
	for _, f := range append(append([]figure{}, later...), before...) {
		if _, known := find(f.ID); known && !has[key{f.ID, f.Level}] {
			has[key{f.ID, f.Level}] = true
			all = append(all, f)
		}
	}
	return inOrder(all)
}

// record writes figures into the record, and the page.
func record(measured []figure) error {
	before, err := readRecord(recordFile)
	if err != nil {
		return err
	}
	all := merge(before, measured)
	var text strings.Builder
	if err := printJSON(&text, all); err != nil {
		return err
	}
	if err := os.WriteFile(recordFile, []byte(text.String()), 0o644); err != nil {
		return err
	}
	return os.WriteFile(pageFile, []byte(page(all)), 0o644)
}

const pageHead = `<!-- Made by "make bench ARGS=-record" from hack/bench/figures.json: don't edit. -->

# Figures

How fast Capstan is, and how much memory and processor time it needs, measured by ` + "`make bench`" + ` with the
built binaries. Each figure has the commit and the date of its measurement, and the load of the machine at that time:
how many processes wanted a processor. A load above the number of processors makes times longer, so such a time is an
upper limit.

A figure must keep its bound; the aim is what we would like it to be. **Bold** values miss their bound. The levels say
who ran Capstan: root, an ordinary user whose containers have one user id, or an ordinary user with subordinate ids.

`

// page returns the page of figures. Pure.
func page(all []figure) string {
	var text, missing strings.Builder
	text.WriteString(pageHead)
	for _, g := range catalog {
		var rows, where, lacks strings.Builder
		for _, w := range g.figures {
			found := false
			for _, f := range inOrder(all) {
				if f.ID == w.id {
					found = true
					rows.WriteString(f.row())
					where.WriteString(f.list())
				}
			}
			if !found {
				fmt.Fprintf(&lacks, "- %s\n", w.name)
			}
		}
		if lacks.Len() > 0 {
			fmt.Fprintf(&missing, "%s:\n\n%s\n", g.title, &lacks)
		}
		if rows.Len() > 0 {
			fmt.Fprintf(&text, "## %s\n\n| figure | level | value | bound | aim | commit | date | load |\n"+
				"|---|---|---|---|---|---|---|---|\n%s\n", g.title, &rows)
		}
		if where.Len() > 0 {
			fmt.Fprintf(&text, "Where it goes:\n\n%s", &where)
		}
	}
	if missing.Len() > 0 {
		fmt.Fprintf(&text, "## Not measured yet\n\n%s", &missing)
	}
	return strings.TrimSpace(text.String()) + "\n"
}

// list returns where the figure's time or memory goes, as a list item.
func (f figure) list() string {
	if len(f.Where) == 0 {
		return ""
	}
	return fmt.Sprintf("- %s (%s):\n\n      %s\n\n", f.Name, f.Level, strings.Join(f.Where, "\n      "))
}

// row returns a figure's line of a table.
func (f figure) row() string {
	value, kind := show(f.Value)+" "+f.Unit, ""
	if f.misses(f.Bound) {
		value = "**" + value + "**"
	}
	if f.AtLeast {
		kind = "at least "
	}
	limits := []string{f.limit(f.Bound), f.limit(f.Aim)}
	for i, l := range limits {
		if l != "" {
			limits[i] = kind + l
		}
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | `%s` | %s | %.1f |\n", f.Name, f.Level, value, limits[0], limits[1],
		f.Commit, f.Date.Format("2006-01-02"), f.Load)
}
