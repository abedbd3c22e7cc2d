package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/lint"
	"github.com/capstan-dev/capstan/runtime/rules"
)

// hookLint are the flags of capstan hook lint.
type hookLint struct {
	lock    string
	against string
	release string
	day     string
	update  bool
	format  string
}

func (a *app) hookLintCommand() *cobra.Command {
	var flags hookLint
	cmd := &cobra.Command{
		Use: "lint [MODULE[@VERSION]] PACKAGE", Short: "Check that a change of hooks breaks no extension",
		Long: `Compare the hooks that a Go package declares with a lock file in git, or with another release, and say what breaks the rules of the Runtime SDK: a hook, a field
or a value of an enumeration that was removed, a type that changed, also inside embedded types, a required field that is new, a hook that blocks now or no longer, a
deprecated version that goes too early.

MODULE is the directory of a module (default: the current one) or a published one with its version; PACKAGE is the import path of the package, or its path within the
module. The source is read, nothing is compiled; the go command must be installed, it fetches modules that are missing.

The first run with --update writes the lock file. Later runs fail on a break; --update takes over changes that are none. Put the lock file into git.`,
		Example: `  capstan hook lint ./api/hooks/v1 --lock hooks.lock.json --update
  capstan hook lint ./api/hooks/v1 --lock hooks.lock.json
  capstan hook lint sigs.k8s.io/cluster-api@v1.13.4 api/runtime/hooks/v1alpha1 --against sigs.k8s.io/cluster-api@v1.12.0`,
		RunE: func(cmd *cobra.Command, args []string) error {
			module, pkg := ".", args[0]
			if len(args) == 2 {
				module, pkg = args[0], args[1]
			}
			return a.lintHooks(cmd.Context(), module, pkg, flags)
		},
	}
	cmd.Flags().StringVar(&flags.lock, "lock", "hooks.lock.json", "lock file to compare with")
	cmd.Flags().StringVar(&flags.against, "against", "",
		"compare with this release instead, MODULE@VERSION or MODULE@VERSION/PACKAGE if the package was elsewhere")
	cmd.Flags().StringVar(&flags.release, "release", "",
		"release that is being made, like v1.14, for deprecation periods")
	cmd.Flags().StringVar(&flags.day, "day", "",
		"day of the release, like 2026-11-21, for deprecation periods (default: today)")
	cmd.Flags().BoolVar(&flags.update, "update", false, "write the lock file if nothing breaks")
	outputFlag(cmd, &flags.format)
	return judging(cmd)
}

func (a *app) lintHooks(ctx context.Context, module, pkg string, flags hookLint) error {
	releases, err := flags.releases()
	if err != nil {
		return err
	}
	report, err := lint.Run(ctx, lint.Options{
		Module: module, Package: pkg, Against: flags.against, Lock: flags.lock, MayBeFirst: flags.update,
		Releases: releases,
	})
	if err != nil {
		return err
	}
	if err := a.print(flags.format, report, func() error { return a.findingTable(report.Findings) }); err != nil {
		return err
	}
	a.warnMissing(report.Missing)
	if rules.Breaks(report.Findings) {
		return findings{hint("make a new version of the hook, or take the change back",
			"this breaks extensions that work with %s", report.Before)}
	}
	if flags.update && flags.against == "" {
		if err := report.WriteLock(flags.lock, flags.release); err != nil {
			return err
		}
		fmt.Fprintf(a.err, "Wrote %s: %d hooks\n", flags.lock, report.Hooks())
		return nil
	}
	fmt.Fprintf(a.err, "No break: %d hooks\n", report.Hooks())
	return nil
}

// warnMissing names packages that could not be read.
func (a *app) warnMissing(packages []string) {
	for _, m := range packages {
		fmt.Fprintf(a.err, "Warning: changes in types of this package are not seen: %s\n", m)
	}
}

func (l hookLint) releases() (rules.Releases, error) {
	releases := rules.Releases{Now: hook.Release(l.release), Day: time.Now()}
	if l.day != "" {
		day, err := time.Parse(time.DateOnly, l.day)
		if err != nil {
			return releases, hint("write it like 2026-11-21", "reading --day: %w", err)
		}
		releases.Day = day
	}
	return releases, nil
}

func (a *app) findingTable(findings []rules.Finding) error {
	rows := make([][]string, 0, len(findings))
	for _, f := range findings {
		rows = append(rows, []string{string(f.Severity), f.Rule, f.HookNames(), dash(f.Path), f.Message})
	}
	if len(rows) == 0 {
		return nil
	}
	return a.table([]string{"SEVERITY", "RULE", "HOOK", "WHERE", "WHAT"}, rows)
}
