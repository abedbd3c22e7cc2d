package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/contract/report"
	"github.com/capstan-dev/capstan/plane/hooks"
	"github.com/capstan-dev/capstan/runtime/lint"
)

// hookPreflight holds the flags of capstan hook preflight.
type hookPreflight struct {
	from, to string
	file     string
	strict   bool
	format   string
}

func (a *app) hookPreflightCommand() *cobra.Command {
	var preflight hookPreflight
	cmd := &cobra.Command{
		Use:   "preflight --from VERSION --to VERSION",
		Short: "Report which installed extensions an upgrade of Cluster API would break",
		Long: `Compare the hooks of two releases of Cluster API, and report what the upgrade means for each handler of the
installed extensions. The extensions are those of the management plane, or the ExtensionConfigs in a file, with their
status: kubectl get extensionconfigs -o yaml.

The command reads the releases' source. It needs the go command, which fetches them.

The report has the format of capstan verify: a change that breaks a handler has level MUST. A change that the
handler's author should check has level SHOULD. The exit code is 0 if no handler breaks, 1 if one does, and 2 if
something could not be compared; with --strict, it is also 1 if a handler should be checked.`,
		Example: `  capstan hook preflight --from v1.12.0 --to v1.13.4
  kubectl get extensionconfigs -o yaml | capstan hook preflight --from v1.12.0 --to v1.13.4 -f -`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.preflightHooks(cmd.Context(), preflight) },
	}
	cmd.Flags().StringVar(&preflight.from, "from", "", "running release of Cluster API, such as v1.12.0")
	cmd.Flags().StringVar(&preflight.to, "to", "", "planned release of Cluster API, such as v1.13.4")
	cmd.Flags().StringVarP(&preflight.file, "file", "f", "",
		"read ExtensionConfigs from this file, - for the standard input")
	cmd.Flags().BoolVar(&preflight.strict, "strict", false, "treat warnings as failures")
	reportFlag(cmd, &preflight.format)
	for _, name := range []string{"from", "to"} {
		_ = cmd.MarkFlagRequired(name)
	}
	return judging(cmd)
}

func (a *app) preflightHooks(ctx context.Context, preflight hookPreflight) error {
	if err := report.Format(preflight.format).Valid(); err != nil {
		return err
	}
	installed, err := a.installedExtensions(ctx, preflight.file)
	if err != nil {
		return err
	}
	upgrade, err := lint.Preflight(ctx, installed, preflight.from, preflight.to)
	if err != nil {
		return err
	}
	a.warnMissing(upgrade.Missing)
	all := len(upgrade.Impacts)
	from := cmp.Or(preflight.file, "installed")
	judged := preflightReport(from, upgrade.Impacts)
	if err := a.writeReport(preflight.format, judged); err != nil {
		return err
	}
	if broken := upgrade.Broken(); broken > 0 {
		return findings{hint(
			"ask the authors of these extensions for a release that works with "+preflight.to,
			"the upgrade from %s to %s breaks %d of %d handlers", preflight.from, preflight.to, broken, all)}
	}
	if preflight.strict && len(judged.Findings) > 0 {
		return findings{hint("ask the authors of these extensions, or leave --strict out",
			"the upgrade from %s to %s breaks none of %d handlers, but some should be checked", preflight.from, preflight.to,
			all)}
	}
	fmt.Fprintf(a.err, "The upgrade from %s to %s breaks none of %d handlers.\n", preflight.from, preflight.to, all)
	return nil
}

func (a *app) installedExtensions(ctx context.Context, file string) ([]runtimev1.ExtensionConfig, error) {
	if file == "" {
		c, err := a.client()
		if err != nil {
			return nil, err
		}
		return hooks.Installed(ctx, c)
	}
	data, err := a.readInput(file)
	if err != nil {
		return nil, fmt.Errorf("reading ExtensionConfigs: %w", err)
	}
	return lint.ParseExtensions(bytes.NewReader(data), file)
}
