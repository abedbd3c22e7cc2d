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
		Long: `Compare the hooks that a Go package declares with a lock file in git, or with another release, and say what
breaks the rules of the Runtime SDK: a hook, a field or a value of an enumeration that was removed, a type that changed,
also inside embedded types, a required field that is new, a hook that blocks now or no longer, a deprecated version that
goes too early.

MODULE is the directory of a module (default: the current one) or a published one with its version; PACKAGE is the
import path of the package, or its path within the module. The source is read, nothing is compiled; the go command must
be installed, it fetches modules that are missing.

The first run with --update writes the lock file. Later runs fail on a break; --update takes over changes that are
none. Put the lock file into git.

The report has the form of capstan verify: a break has level MUST, a warning SHOULD. The exit code is 0 without a break,
1 with one, and 2 if something could not be compared; with --strict warnings count too.`,
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
	cmd.Flags().BoolVar(&flags.strict, "strict", false, "warnings fail, too")
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
		return findings{hint("make a new version of the hook, or take the change back",
			"this breaks extensions that work with %s", found.Before)}
	}
	if flags.strict && len(found.Findings) > 0 {
		return findings{hint("take the change back, or leave --strict out",
			"extensions that work with %s should be looked at", found.Before)}
	}
	if flags.update && flags.against == "" {
		if err := found.WriteLock(flags.lock, flags.release); err != nil {
			return err
		}
		fmt.Fprintf(a.err, "Wrote %s: %d hooks\n", flags.lock, found.Hooks())
		return nil
	}
	fmt.Fprintf(a.err, "No break: %d hooks\n", found.Hooks())
	return nil
}

// warnMissing prints a warning with the packages that could not be read.
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
