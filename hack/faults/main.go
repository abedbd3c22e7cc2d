// Faults plants a fault for each rule of the contracts that our code keeps, and checks whether the rule's test notices.
//
//	go run ./hack/faults                 # all faults: takes hours
//	go run ./hack/faults RX CL-05        # the faults of a family and of a rule
//
// The tables are test/faults/*.yaml: rule, file, the text to replace, the text with the fault, and the test that must
// fail. Each fault is planted in a work tree of the commit that is checked out, the cheap faults first. Results go to
// bin/reports/faults.tsv, one line for each fault; a run of some faults replaces only their lines. Faults that were
// found on this commit are not tried again, so an interrupted run can be continued; -again also tries those. The exit
// status is 1 if a fault is not found.
//
// With -record, the report of a run over all faults on one commit becomes test/faults/results.tsv, which hack/coverage
// joins with the rules.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// tables is the directory of the tables; results is the committed report.
	tables  = "test/faults"
	results = "test/faults/results.tsv"
	// report is the report of runs on this machine.
	report = "bin/reports/faults.tsv"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func command(ctx context.Context, args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("faults", flag.ContinueOnError)
	flags.SetOutput(errs)
	trees := flags.Int("parallel", 1, "how many faults are tried at a time, each in a work tree of its own")
	again := flags.Bool("again", false, "also try faults that were already found on this commit")
	keep := flags.Bool("record", false, "copy the report of a run over all faults to "+results+", and try no faults")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	root, err := os.Getwd()
	switch {
	case err != nil:
	case *trees < 1:
		err = fmt.Errorf("-parallel is %d, want 1 or more", *trees)
	case *keep:
		var table []fault
		if table, err = read(filepath.Join(root, tables)); err == nil {
			err = record(table, filepath.Join(root, report), filepath.Join(root, results))
		}
	default:
		err = all(ctx, root, flags.Args(), *trees, *again, out)
	}
	if err != nil {
		fmt.Fprintln(errs, "faults:", err)
		return 1
	}
	return 0
}

// all tries the faults of the named rules, or all faults if there are no names.
func all(ctx context.Context, root string, names []string, trees int, again bool, out io.Writer) error {
	table, err := read(filepath.Join(root, tables))
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(table, func(f fault) bool { return named(f.Rule, names) }) {
		return fmt.Errorf("there are no faults for %s", strings.Join(names, ", "))
	}
	head, err := exec.CommandContext(ctx, "git", "-C", root, "rev-parse", "--short=9", "HEAD").Output()
	if err != nil {
		return fmt.Errorf("asking for the commit: %w", err)
	}
	var planted []*tree
	defer func() {
		for _, t := range planted {
			_ = t.remove(context.WithoutCancel(ctx))
		}
	}()
	for i := range trees {
		t, err := plant(ctx, root, filepath.Join(root, ".cache", fmt.Sprintf("faults-%d", i+1)))
		if err != nil {
			return err
		}
		planted = append(planted, t)
	}
	r := &trial{
		table: table, names: names, commit: strings.TrimSpace(string(head)), again: again,
		report: filepath.Join(root, report), out: out,
	}
	if err := r.run(ctx, planted); err != nil {
		return err
	}
	fmt.Fprintf(out, "All faults were found, or have a reason. Report: %s\n", r.report)
	return nil
}

// named reports whether a rule or its family is one of names.
func named(rule string, names []string) bool {
	family := rule[:strings.LastIndex(rule, "-")]
	return len(names) == 0 || slices.Contains(names, rule) || slices.Contains(names, family)
}
