// Faults plants a fault for each rule of the contracts that our code keeps, and sees whether the rule's test notices.
//
//	go run ./hack/faults                 # all faults: takes hours
//	go run ./hack/faults RX CL-05        # the faults of a family and of a rule
//
// The tables are test/faults/*.yaml: rule, file, the text to replace, the text with the fault, and the test that must
// fail. Each fault is planted in a work tree of the commit that is checked out. What is found goes to
// bin/reports/faults.tsv, one line for each fault; a run of some faults replaces their lines only. The exit status is 1
// if a fault is not found.
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
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func command(ctx context.Context, args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("faults", flag.ContinueOnError)
	flags.SetOutput(errs)
	if err := flags.Parse(args); err != nil {
		return 2
	}
	root, err := os.Getwd()
	if err == nil {
		err = all(ctx, root, flags.Args(), out)
	}
	if err != nil {
		fmt.Fprintln(errs, "faults:", err)
		return 1
	}
	return 0
}

// all tries the faults of the rules that are named; no name is all of them.
func all(ctx context.Context, root string, names []string, out io.Writer) error {
	table, err := read(filepath.Join(root, "test", "faults"))
	if err != nil {
		return err
	}
	table = slices.DeleteFunc(table, func(f fault) bool { return !named(f.Rule, names) })
	if len(table) == 0 {
		return fmt.Errorf("no fault is of %s", strings.Join(names, ", "))
	}
	head, err := exec.CommandContext(ctx, "git", "-C", root, "rev-parse", "--short=10", "HEAD").Output()
	if err != nil {
		return fmt.Errorf("asking for the commit: %w", err)
	}
	t, err := plant(ctx, root)
	if err != nil {
		return err
	}
	defer func() { _ = t.remove(context.WithoutCancel(ctx)) }()
	path := filepath.Join(root, "bin", "reports", "faults.tsv")
	old, err := readReport(path)
	if err != nil {
		return err
	}
	rows := slices.DeleteFunc(old, func(r reportRow) bool { return named(r.rule, names) })
	bad := 0
	for i, f := range table {
		row := reportRow{rule: f.Rule, verdict: "no fault", detail: f.Why}
		if f.Why == "" {
			start := time.Now()
			result, detail, err := t.try(ctx, f)
			if err != nil {
				result, detail = notRun, err.Error()
			}
			row = reportRow{f.Rule, string(result), strings.TrimSpace(string(head)), f.File, f.Test, detail}
			if result != found {
				bad++
			}
			fmt.Fprintf(out, "%d/%d  %-7s %-16s %s  (%s)\n",
				i+1, len(table), f.Rule, result, f.Test, time.Since(start).Round(time.Second))
			if result != found && detail != "" {
				fmt.Fprintln(out, "        "+detail)
			}
		}
		rows = append(rows, row)
		if err := writeReport(path, rows); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d faults were not found", bad, len(table))
	}
	fmt.Fprintf(out, "All %d faults were found, or have a reason. Report: %s\n", len(table), path)
	return nil
}

// named reports whether a rule is one of names: rules or families.
func named(rule string, names []string) bool {
	family := rule[:strings.LastIndex(rule, "-")]
	return len(names) == 0 || slices.Contains(names, rule) || slices.Contains(names, family)
}
