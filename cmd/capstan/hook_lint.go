package main

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/rules"
	"github.com/capstan-dev/capstan/runtime/schema"
)

type hookLint struct {
	lock    string
	against string
	release string
	day     string
	update  bool
	format  string
}

// lintReport is what capstan hook lint found.
type lintReport struct {
	Package  string          `json:"package"`
	Before   string          `json:"before"`
	Missing  []string        `json:"missing,omitempty"`
	Findings []rules.Finding `json:"findings"`
}

func (a *app) hookLintCommand() *cobra.Command {
	var lint hookLint
	cmd := &cobra.Command{
		Use: "lint [MODULE[@VERSION]] PACKAGE", Short: "Check that a change of hooks breaks no extension", Args: cobra.RangeArgs(1, 2),
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
			return a.lintHooks(cmd.Context(), module, pkg, lint)
		},
	}
	cmd.Flags().StringVar(&lint.lock, "lock", "hooks.lock.json", "lock file to compare with")
	cmd.Flags().StringVar(&lint.against, "against", "", "compare with this release instead, MODULE@VERSION or MODULE@VERSION/PACKAGE if the package was elsewhere")
	cmd.Flags().StringVar(&lint.release, "release", "", "release that is being made, like v1.14, for deprecation periods")
	cmd.Flags().StringVar(&lint.day, "day", "", "day of the release, like 2026-11-21, for deprecation periods (default: today)")
	cmd.Flags().BoolVar(&lint.update, "update", false, "write the lock file if nothing breaks")
	outputFlag(cmd, &lint.format)
	return cmd
}

func (a *app) lintHooks(ctx context.Context, module, pkg string, lint hookLint) error {
	releases, err := lint.releases()
	if err != nil {
		return err
	}
	importPath, now, missing, err := readHooks(ctx, module, pkg)
	if err != nil {
		return err
	}
	report := lintReport{Package: importPath, Before: lint.lock, Missing: missing, Findings: []rules.Finding{}}
	var before *schema.Document
	if lint.against != "" {
		report.Before = lint.against
		oldModule, oldPackage := cutRelease(lint.against, pkg)
		if _, before, _, err = readHooks(ctx, oldModule, oldPackage); err != nil {
			return err
		}
	} else {
		lock, err := rules.ReadLock(lint.lock)
		switch {
		case rules.IsMissing(err) && lint.update:
		case rules.IsMissing(err):
			return hint("write it: capstan hook lint --update", "there is no lock file %s", lint.lock)
		case err != nil:
			return err
		default:
			before = lock.Document
		}
	}
	if before != nil {
		report.Findings = rules.Compare(before, now, releases)
	}
	if err := a.print(lint.format, report, func() error { return a.findingTable(report.Findings) }); err != nil {
		return err
	}
	for _, m := range missing {
		fmt.Fprintf(a.err, "Warning: changes in types of this package are not seen: %s\n", m)
	}
	if rules.Breaks(report.Findings) {
		return hint("make a new version of the hook, or take the change back", "this breaks extensions that work with %s", report.Before)
	}
	if lint.update && lint.against == "" {
		lock := &rules.Lock{Package: importPath, Release: lint.release, Document: now}
		if err := lock.Write(lint.lock); err != nil {
			return err
		}
		fmt.Fprintf(a.err, "Wrote %s: %d hooks\n", lint.lock, len(now.Hooks))
		return nil
	}
	fmt.Fprintf(a.err, "No break: %d hooks\n", len(now.Hooks))
	return nil
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

// cutRelease splits MODULE@VERSION/PACKAGE; without a package it is the one that is given.
func cutRelease(name, pkg string) (module, packagePath string) {
	at := strings.Index(name, "@")
	if at < 0 {
		return name, pkg
	}
	version, rest, ok := strings.Cut(name[at:], "/")
	if !ok {
		return name, pkg
	}
	return name[:at] + version, rest
}

// readHooks reads the hooks of a package of a module.
func readHooks(ctx context.Context, module, pkg string) (importPath string, document *schema.Document, missing []string, err error) {
	m, err := schema.OpenModule(ctx, module)
	if err != nil {
		return "", nil, nil, err
	}
	importPath = pkg
	if pkg != m.Path() && !strings.HasPrefix(pkg, m.Path()+"/") {
		importPath = path.Join(m.Path(), pkg)
	}
	source := &schema.Source{Locate: m.Locate}
	document, err = source.Read(ctx, importPath)
	return importPath, document, source.Missing(), err
}

func (a *app) findingTable(findings []rules.Finding) error {
	rows := make([][]string, 0, len(findings))
	for _, f := range findings {
		hooks := make([]string, len(f.Hooks))
		for i, h := range f.Hooks {
			hooks[i] = hookName(h)
		}
		where := strings.Join(hooks, ",")
		if len(hooks) > 3 {
			where = fmt.Sprintf("%s and %d more", strings.Join(hooks[:2], ","), len(hooks)-2)
		}
		rows = append(rows, []string{string(f.Severity), f.Rule, where, dash(f.Path), f.Message})
	}
	if len(rows) == 0 {
		return nil
	}
	return a.table([]string{"SEVERITY", "RULE", "HOOK", "WHERE", "WHAT"}, rows)
}
