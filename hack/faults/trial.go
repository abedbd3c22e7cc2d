package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// noFault is the verdict of a rule that has a reason instead of a fault.
const noFault = "no fault"

// trial is one run over the faults of the table, on one commit.
type trial struct {
	// table has all faults; names are the rules and families to try.
	table []fault
	names []string
	// commit is the commit of the sources.
	commit string
	// again also tries faults that were already found on this commit.
	again bool
	// report is the path of the report.
	report string
	out    io.Writer

	mu   sync.Mutex
	rows []reportRow
	bad  []string
}

// run tries the remaining faults, one at a time in each tree, and writes the report after each fault.
func (r *trial) run(ctx context.Context, trees []*tree) error {
	todo, err := r.begin()
	if err != nil {
		return err
	}
	next := make(chan fault)
	var workers sync.WaitGroup
	for _, t := range trees {
		workers.Go(func() {
			for f := range next {
				start := time.Now()
				result, detail, err := t.try(ctx, f)
				if err != nil {
					result, detail = notRun, err.Error()
				}
				if ctx.Err() == nil {
					r.done(f, result, detail, start)
				}
			}
		})
	}
	for _, f := range todo {
		if ctx.Err() == nil {
			next <- f
		}
	}
	close(next)
	workers.Wait()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: the results so far are kept, and the next run on this commit continues from there", err)
	}
	if len(r.bad) > 0 {
		return fmt.Errorf("%d faults were not found: %s", len(r.bad), strings.Join(r.bad, " "))
	}
	return writeReport(r.report, r.rows)
}

// begin reads the report of earlier runs and returns the faults to try. It drops rows of faults that are no longer in
// the table.
func (r *trial) begin() (todo []fault, err error) {
	old, err := readReport(r.report)
	if err != nil {
		return nil, err
	}
	guess := map[string]time.Duration{}
	for _, f := range r.table {
		row := reportRow{rule: f.Rule, verdict: noFault, detail: f.Why}
		i := slices.IndexFunc(old, func(r reportRow) bool { return r.of(f) })
		if f.Why == "" && i >= 0 {
			row = old[i]
			guess[f.Rule+f.File] = row.took
		}
		if f.Why != "" || i >= 0 {
			r.rows = append(r.rows, row)
		}
		done := i >= 0 && row.verdict == string(found) && row.commit == r.commit && !r.again
		if f.Why == "" && !done && named(f.Rule, r.names) {
			todo = append(todo, f)
		}
	}
	slices.SortStableFunc(todo, func(a, b fault) int {
		return cmp.Compare(cmp.Or(guess[a.Rule+a.File], a.cost()), cmp.Or(guess[b.Rule+b.File], b.cost()))
	})
	fmt.Fprintf(r.out, "%d of %d faults to try on %s\n", len(todo), len(r.table), r.commit)
	return todo, nil
}

// done records the outcome of a fault.
func (r *trial) done(f fault, result outcome, detail string, start time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	took := time.Since(start)
	row := reportRow{
		f.Rule, string(result), r.commit, start.UTC().Format(time.DateOnly), took, f.File, f.Test, detail,
	}
	r.rows = append(slices.DeleteFunc(r.rows, func(o reportRow) bool { return o.of(f) }), row)
	fmt.Fprintf(r.out, "%s  %-7s %-16s %s  (%s)\n",
		start.Format(time.TimeOnly), f.Rule, result, f.Test, took.Round(time.Second))
	if result != found {
		r.bad = append(r.bad, f.Rule)
		fmt.Fprintln(r.out, "        "+detail)
	}
	if err := writeReport(r.report, r.rows); err != nil {
		fmt.Fprintln(r.out, "        the report could not be written:", err)
	}
}

// slow matches the packages whose tests start API servers or planes.
var slow = regexp.MustCompile(`^\./(plane|test/(e2e|lifecycle|contract|clusterctl|interop))$`)

// cost estimates how long a fault takes: cheap faults are tried first.
func (f fault) cost() time.Duration {
	pkg, _ := f.split()
	switch {
	case len(f.Build) > 0 || pkg == "./test/e2e":
		return 3 * time.Minute
	case slow.MatchString(pkg):
		return time.Minute
	}
	return 10 * time.Second
}

// place matches the position of the test line that noticed a fault.
var place = regexp.MustCompile(`^\w+_test\.go:\d+`)

// record writes a report to be committed: all faults of the table, tried on one commit. It replaces the text of each
// failure, which names addresses and directories of a machine, with the position of the test line that noticed the
// fault.
func record(table []fault, from, to string) error {
	rows, err := readReport(from)
	if err != nil {
		return err
	}
	var errs []error
	commit := ""
	for _, f := range table {
		i := slices.IndexFunc(rows, func(r reportRow) bool {
			return r.of(f) && (r.verdict == noFault) == (f.Why != "")
		})
		switch {
		case i < 0:
			errs = append(errs, fmt.Errorf("%s was not tried: %s", f.Rule, f.File))
			continue
		case f.Why != "":
			continue
		case rows[i].verdict != string(found):
			errs = append(errs, fmt.Errorf("%s: %s", f.Rule, rows[i].verdict))
		case commit != "" && rows[i].commit != commit:
			errs = append(errs, fmt.Errorf("%s was tried on %s, others on %s", f.Rule, rows[i].commit, commit))
		}
		commit = cmp.Or(commit, rows[i].commit)
		rows[i].detail = place.FindString(rows[i].detail)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("the report is not about one run over all faults:\n%w", err)
	}
	return writeReport(to, rows)
}
