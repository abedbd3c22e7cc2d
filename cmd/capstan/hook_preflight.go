package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/yaml"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/plane/hooks"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/rules"
)

// Where Cluster API's hooks are: since v1.14 its types are a module of their own.
const (
	coreModule  = "sigs.k8s.io/cluster-api"
	corePackage = "api/runtime/hooks/v1alpha1"
)

type hookPreflight struct {
	from, to string
	file     string
	format   string
}

func (a *app) hookPreflightCommand() *cobra.Command {
	var preflight hookPreflight
	cmd := &cobra.Command{
		Use: "preflight --from VERSION --to VERSION", Short: "Say which installed extensions an upgrade of Cluster API would break", Args: cobra.NoArgs,
		Long: `Compare the hooks of two releases of Cluster API, and say for each handler of the installed extensions what the upgrade means. The extensions are those of the
management plane, or the ExtensionConfigs in a file, with their status: kubectl get extensionconfigs -o yaml.

The releases are read from their source; the go command must be installed, it fetches them.`,
		Example: `  capstan hook preflight --from v1.12.0 --to v1.13.4
  kubectl get extensionconfigs -o yaml | capstan hook preflight --from v1.12.0 --to v1.13.4 -f -`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.preflightHooks(cmd.Context(), preflight) },
	}
	cmd.Flags().StringVar(&preflight.from, "from", "", "release of Cluster API that runs, like v1.12.0")
	cmd.Flags().StringVar(&preflight.to, "to", "", "release of Cluster API that is planned, like v1.13.4")
	cmd.Flags().StringVarP(&preflight.file, "file", "f", "", "read ExtensionConfigs from this file, - for the input")
	outputFlag(cmd, &preflight.format)
	for _, name := range []string{"from", "to"} {
		_ = cmd.MarkFlagRequired(name)
	}
	return cmd
}

func (a *app) preflightHooks(ctx context.Context, preflight hookPreflight) error {
	installed, err := a.installedExtensions(ctx, preflight.file)
	if err != nil {
		return err
	}
	_, before, missing, err := readHooks(ctx, coreModule+"@"+preflight.from, corePackage)
	if err != nil {
		return err
	}
	_, planned, alsoMissing, err := readHooks(ctx, coreModule+"@"+preflight.to, corePackage)
	if err != nil {
		return err
	}
	for _, m := range append(missing, alsoMissing...) {
		fmt.Fprintf(a.err, "Warning: changes in types of this package are not seen: %s\n", m)
	}
	impacts := rules.Preflight(installed, before, planned, rules.Releases{Now: minorOf(preflight.to), Day: time.Now()})
	if err := a.print(preflight.format, impacts, func() error { return a.impactTable(impacts) }); err != nil {
		return err
	}
	broken := 0
	for _, impact := range impacts {
		if impact.Verdict == rules.Break {
			broken++
		}
	}
	if broken > 0 {
		return hint("see with -o yaml what changed; ask the authors of these extensions for a release that works with "+preflight.to,
			"the upgrade from %s to %s breaks %d of %d handlers", preflight.from, preflight.to, broken, len(impacts))
	}
	fmt.Fprintf(a.err, "The upgrade from %s to %s breaks none of %d handlers.\n", preflight.from, preflight.to, len(impacts))
	return nil
}

// minorOf gives v1.13 for v1.13.4.
func minorOf(version string) hook.Release {
	var major, minor int
	if _, err := fmt.Sscanf(version, "v%d.%d", &major, &minor); err != nil {
		return ""
	}
	return hook.Release(fmt.Sprintf("v%d.%d", major, minor))
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
	var all []runtimev1.ExtensionConfig
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		// A list and a single one differ by what they have: items, or a spec.
		var document struct {
			runtimev1.ExtensionConfig `json:",inline"`
			Items                     []runtimev1.ExtensionConfig `json:"items"`
		}
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading ExtensionConfigs in %s: %w", file, err)
		}
		if document.Kind == "ExtensionConfig" {
			all = append(all, document.ExtensionConfig)
		}
		all = append(all, document.Items...)
	}
	if len(all) == 0 {
		return nil, hint("write it with: kubectl get extensionconfigs -o yaml", "%s holds no ExtensionConfigs", file)
	}
	return all, nil
}

func (a *app) impactTable(impacts []rules.Impact) error {
	rows := make([][]string, 0, len(impacts))
	for _, i := range impacts {
		verdict, why := "ok", ""
		if i.Verdict != "" {
			verdict = string(i.Verdict)
			why = i.Findings[0].Message
			if i.Findings[0].Path != "" {
				why = i.Findings[0].Path + ": " + why
			}
			if more := len(i.Findings) - 1; more > 0 {
				why += fmt.Sprintf(" (and %d more)", more)
			}
		}
		rows = append(rows, []string{i.Extension, i.Handler, hookName(i.Hook), verdict, dash(oneLine(why, 140))})
	}
	return a.table([]string{"EXTENSION", "HANDLER", "HOOK", "VERDICT", "WHY"}, rows)
}
