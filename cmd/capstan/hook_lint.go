package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/contract/report"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/lint"
	"github.com/capstan-dev/capstan/runtime/rules"
)

// hookLint holds the flags of capstan hook lint.
type hookLint struct {
	lock    string
	against string
	release string
	day     string
	update  bool
	strict  bool
	format  string
}

func (a *app) hookLintCommand() *cobra.Command {
	var flags hookLint
	cmd := &cobra.Command{
		Use: "lint [MODULE[@VERSION]] PACKAGE", Short: "Check that a change of hooks breaks no extension",
		Long: `Compare the hooks that a Go package declares with a lock file in git, or with another release, and report what
breaks the rules of the Runtime SDK: a removed hook, field or enumeration value; a changed type, also inside embedded
types; a new required field; a hook that starts or stops blocking; a deprecated version that is removed too early.

MODULE is the directory of a module (default: the current one) or a published one with its version; PACKAGE is the
import path of the package, or its path within the module. The command reads the source and compiles nothing. It needs
the go command, which fetches missing modules.

The first run with --update writes the lock file. Later runs fail if something breaks; with --update, other changes go
into the lock file. Commit the lock file to git.

The report has the format of capstan verify: a break has level MUST, a warning SHOULD. The exit code is 0 without
breaks, 1 with breaks, and 2 if something could not be compared; with --strict, warnings count as breaks.`,
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
		"compare with this release instead: MODULE@VERSION, or MODULE@VERSION/PACKAGE if the package was elsewhere")
	cmd.Flags().StringVar(&flags.release, "release", "",
		"release that you prepare, such as v1.14; decides whether deprecation periods are over")
	cmd.Flags().StringVar(&flags.day, "day", "",
		"day of that release, such as 2026-11-21 (default: today)")
	cmd.Flags().BoolVar(&flags.update, "update", false, "write the lock file if nothing breaks")
	cmd.Flags().BoolVar(&flags.strict, "strict", false, "treat warnings as failures")
	reportFlag(cmd, &flags.format)
	return judging(cmd)
}

func (a *app) lintHooks(ctx context.Context, module, pkg string, flags hookLint) error {
	releases, err := flags.releases()
	if err != nil {
		return err
	}
	if err := report.Format(flags.format).Valid(); err != nil {
		return err
	}
	found, err := lint.Run(ctx, lint.Options{
		Module: module, Package: pkg, Against: flags.against, Lock: flags.lock, MayBeFirst: flags.update,
		Releases: releases,
	})
	if err != nil {
		return err
	}
	if err := a.writeReport(flags.format, lintReport(module, pkg, found.Findings)); err != nil {
		return err
	}
	a.warnMissing(found.Missing)
	if rules.Breaks(found.Findings) {
		return findings{hint("add a new version of the hook, or revert the change",
			"this breaks extensions that work with %s", found.Before)}
	}
	if flags.strict && len(found.Findings) > 0 {
		return findings{hint("revert the change, or leave --strict out",
			"check the extensions that work with %s", found.Before)}
	}
	if flags.update && flags.against == "" {
		if err := found.WriteLock(flags.lock, flags.release); err != nil {
			return err
		}
		fmt.Fprintf(a.err, "Wrote %s: %d hooks\n", flags.lock, found.Hooks())
		return nil
	}
	fmt.Fprintf(a.err, "Nothing breaks: %d hooks\n", found.Hooks())
	return nil
}

// warnMissing prints a warning with the packages that could not be read.
func (a *app) warnMissing(packages []string) {
	for _, m := range packages {
		fmt.Fprintf(a.err, "Warning: changes in types of this package go undetected: %s\n", m)
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
