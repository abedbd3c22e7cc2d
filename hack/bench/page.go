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

This page shows how fast Capstan is, and how much memory and processor time it needs. ` + "`make bench`" + ` measured
the figures with the built binaries. Each figure has the commit and the date of its measurement. If the sources also had
uncommitted changes, the commit is followed by "and changes". The load is the number of processes that wanted a
processor at that time. If the load is above the number of processors, times get longer, so such a time is an upper
limit.

A value must not exceed its bound. If the bound says "at least", the value must not be below it. The aim is the value
that we would like to reach. **Bold** values miss their bound. The level says who ran Capstan: root, an ordinary user
whose containers have one user id, or an ordinary user with subordinate ids.

In the names of figures, "up" is the start of ` + "`capstan up`" + `, and "3 + 2" means three control plane machines and
two workers. A value in "times" is the ratio to what the name mentions after "against". "The same" refers to the last
figure above that does not begin with these words. PSS counts shared memory only once.

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
			fmt.Fprintf(&text, "What these values consist of:\n\n%s", &where)
		}
	}
	if missing.Len() > 0 {
		fmt.Fprintf(&text, "## Not measured yet\n\n%s", &missing)
	}
	return strings.TrimSpace(text.String()) + "\n"
}

// list returns what the figure's value consists of, as a list item.
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
