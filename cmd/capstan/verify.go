package main

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/checks"
	"github.com/capstan-dev/capstan/contract/report"
	"github.com/capstan-dev/capstan/contract/source"
)

// verifyFlags holds the flags of capstan verify.
type verifyFlags struct {
	format   string
	explain  string
	baseline string
	level    string
	version  string
	against  []string
	set      []string
	values   string
	clusters []string
	list     bool
	fix      bool
}

func (a *app) verifyCommand() *cobra.Command {
	var flags verifyFlags
	cmd := &cobra.Command{
		Use: "verify [PATH]...", Short: "Check a provider of Cluster API against the provider contracts",
		Long: `Check the files of any Cluster API provider against the contracts of providers and of clusterctl. PATH is a
directory of a release, a repository with several releases, a file of components, an archive (.tar.gz, .zip), a
kustomize base, or the root of a Go module with config/default; the default is the current directory. The check needs
neither a management cluster nor a network.

With --against, the release is also compared with its predecessor: versions, stored objects, schemas and series. Cluster
templates and components are checked with the defaults of their variables, or with values from --set and --variables;
ClusterClasses with the defaults of their variables, and with the values of Clusters in the release or from --cluster.
--fix repairs findings in the files where it can, and reports only the others.

The exit code is 0 without findings, 1 with findings, and 2 if something could not be checked.`,
		Example: `  capstan verify ./out/infrastructure-foo/v1.2.3
  capstan verify -o sarif . > verify.sarif
  capstan verify --against ./out/infrastructure-foo/v1.1.0 ./out/infrastructure-foo/v1.2.3
  capstan verify --set CONTROL_PLANE_MACHINE_COUNT=3 --variables ci.yaml ./out/infrastructure-foo/v1.2.3
  capstan verify --explain IM-19
  capstan verify --list`,
		// The command works without a home directory.
		PersistentPreRunE: func(*cobra.Command, []string) error { return nil },
		RunE: func(_ *cobra.Command, args []string) error {
			if flags.explain != "" {
				return contract.Explain(a.out, flags.explain)
			}
			if flags.list {
				return contract.List(a.out)
			}
			if len(args) == 0 {
				args = []string{"."}
			}
			// The command runs only for a second or two, and collecting garbage took a third of that.
			defer debug.SetGCPercent(debug.SetGCPercent(400))
			return a.verify(args, flags)
		},
	}
	reportFlag(cmd, &flags.format)
	cmd.Flags().StringVar(&flags.explain, "explain", "", "explain a check or a rule by its id, and check nothing")
	cmd.Flags().StringVar(&flags.baseline, "baseline", "", "file with accepted findings and the reasons")
	cmd.Flags().StringVar(&flags.level, "level", "should", "lowest level of rules to check: must or should")
	cmd.Flags().StringVar(&flags.version, "version", "",
		"version to be released, if the directory of PATH is not named after it")
	cmd.Flags().StringArrayVar(&flags.against, "against", nil,
		"older release to compare with, in any of the forms of PATH")
	cmd.Flags().StringArrayVar(&flags.set, "set", nil,
		"value of a clusterctl variable that replaces its default, NAME=VALUE")
	cmd.Flags().StringVar(&flags.values, "variables", "",
		"file with such values, in the format of clusterctl's configuration")
	cmd.Flags().StringArrayVar(&flags.clusters, "cluster", nil,
		"file with a Cluster; its ClusterClass is also rendered with the variables of this Cluster")
	cmd.Flags().BoolVar(&flags.list, "list", false, "list the checks, and the rules that can't be checked in files")
	cmd.Flags().BoolVar(&flags.fix, "fix", false, "repair findings in the files where possible")
	a.completeVerify(cmd)
	return judging(cmd)
}

// completeVerify sets up shell completion.
func (a *app) completeVerify(cmd *cobra.Command) {
	fixed := func(flag string, values []string) {
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	var ids []string
	for _, c := range checks.All() {
		ids = append(ids, c.ID)
	}
	fixed("explain", ids)
	fixed("level", []string{"must", "should"})
}

func (a *app) verify(paths []string, flags verifyFlags) error {
	table, err := checks.AtLeast(flags.level)
	if err != nil {
		return err
	}
	if err := report.Format(flags.format).Valid(); err != nil {
		return err
	}
	result, err := a.judge(table, paths, flags)
	if err != nil {
		return err
	}
	if flags.baseline != "" {
		accepted, err := report.ReadBaseline(flags.baseline)
		if err != nil {
			return err
		}
		report.Accept(result, accepted, flags.baseline)
	}
	if err := report.Write(a.out, report.Format(flags.format), result, table); err != nil {
		return err
	}
	switch {
	case len(result.Failures) > 0:
		next := "repair the base that the text above names: everything that does not depend on it was checked"
		if slices.ContainsFunc(result.Failures, func(f check.Failure) bool { return f.Check != check.Source }) {
			next = "report it to Capstan, with the text above"
		}
		return hint(next, "%s", report.Summary(result))
	case len(result.Findings) > 0:
		return findings{hint("capstan verify --explain ID says more about a check or a rule", "%s", report.Summary(result))}
	}
	_, err = a.err.Write([]byte(report.Summary(result) + "\n"))
	return err
}

// judge opens what the arguments name and runs the checks over it. With --fix it applies fixes and runs the checks
// again.
func (a *app) judge(table []*check.Check, paths []string, flags verifyFlags) (*check.Report, error) {
	reader, err := flags.reader()
	if err != nil {
		return nil, err
	}
	open := func(paths []string, version string) ([]*source.Release, error) {
		return summarized(a.err, func() ([]*source.Release, error) { return openAll(reader, paths, version) })
	}
	before, err := open(flags.against, "")
	if err != nil {
		return nil, err
	}
	releases, err := open(paths, flags.version)
	if err != nil {
		return nil, err
	}
	if unused := reader.Unused(releases); len(unused) > 0 {
		return nil, hint("check the names in the files, or leave it out", "the checked files don't use: %s",
			strings.Join(unused, ", "))
	}
	result := check.Run(table, releases, before...)
	if flags.fix {
		made, err := result.Fix()
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(a.err, "Fields repaired: %d\n", made)
		if releases, err = open(paths, flags.version); err != nil {
			return nil, err
		}
		result = check.Run(table, releases, before...)
	}
	result.Live = contract.Live()
	return result, nil
}

// reader returns a reader with the values of variables from flags. Values of --set take precedence.
func (f verifyFlags) reader() (source.Reader, error) {
	reader := source.Reader{Variables: map[string]string{}, Clusters: f.clusters}
	if f.values != "" {
		values, err := source.ReadVariables(f.values)
		if err != nil {
			return reader, err
		}
		reader.Variables = values
	}
	for _, pair := range f.set {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return reader, hint("write NAME=VALUE", "--set has no value: %q", pair)
		}
		reader.Variables[name] = value
	}
	return reader, nil
}

// openAll returns the releases that paths name. A release whose own version is unknown gets the given version.
func openAll(reader source.Reader, paths []string, version string) ([]*source.Release, error) {
	var all []*source.Release
	for _, path := range paths {
		found, err := reader.Open(path)
		if err != nil {
			return nil, err
		}
		for _, release := range found {
			if release.Version == "" {
				release.Version = version
			}
		}
		all = append(all, found...)
	}
	return all, nil
}
