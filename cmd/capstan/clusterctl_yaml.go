package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"

	"github.com/capstan-dev/capstan/clusterctl"
)

// clusterctlGenerateYAMLCommand replaces variables in any YAML.
func (a *app) clusterctlGenerateYAMLCommand(t *target) *cobra.Command {
	var o upstream.ProcessYAMLOptions
	var from string
	cmd := &cobra.Command{
		Use: "yaml", Short: "Replace the variables of a YAML",
		Example: `  capstan clusterctl generate yaml --from cluster-template.yaml
  capstan clusterctl generate yaml --list-variables < cluster-template.yaml`,
		RunE: a.onCluster(t, true, func(ctx context.Context, c *clusterctl.Client, _ []string) error {
			if from == "-" {
				o.ReaderSource = &upstream.ReaderSourceOptions{Reader: a.in}
			} else {
				o.URLSource = &upstream.URLSourceOptions{URL: from}
			}
			printer, err := c.ProcessYAML(ctx, o)
			if err != nil {
				return err
			}
			if !o.SkipTemplateProcess {
				return a.writeYAML(printer.Yaml, "")
			}
			for _, name := range printer.Variables() {
				fmt.Fprintln(a.out, name)
			}
			return nil
		}),
	}
	cmd.Flags().StringVar(&from, "from", "-", "file or URL; - is standard input")
	cmd.Flags().BoolVar(&o.SkipTemplateProcess, "list-variables", false, "print the names of the variables instead")
	return cmd
}

// writeToFlag adds clusterctl's flag for a file that replaces standard output.
func writeToFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "write-to", "", "file to write to (default: standard output)")
}

// writeYAML writes the result of text to a file or to standard output. It closes the file before it reports success.
func (a *app) writeYAML(text func() ([]byte, error), path string) error {
	data, err := text()
	if err != nil {
		return err
	}
	if path != "" {
		if err := os.WriteFile(path, append(data, '\n'), 0o600); err != nil {
			return fmt.Errorf("writing the YAML: %w", err)
		}
		return nil
	}
	_, err = fmt.Fprintf(a.out, "%s\n", data)
	return err
}

// clusterctlConvertCommand converts Cluster API objects to another version.
func (a *app) clusterctlConvertCommand(t *target) *cobra.Command {
	var version, path string
	cmd := &cobra.Command{
		Use: "convert [FILE]", Short: "Convert Cluster API's objects to another API version; experimental upstream",
		Example: "  capstan clusterctl convert cluster.yaml -o converted.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := clusterctl.MayConvertTo(version); err != nil {
				return err
			}
			in := a.in
			if len(args) > 0 {
				file, err := os.Open(args[0])
				if err != nil {
					return fmt.Errorf("reading the input: %w", err)
				}
				defer file.Close()
				in = file
			}
			data, err := clusterctl.ReadToConvert(in)
			if err != nil {
				return err
			}
			c, err := a.clusterctl(cmd, t, true)
			if err != nil {
				return err
			}
			result, err := c.Convert(cmd.Context(), upstream.ConvertOptions{Input: data, ToVersion: version})
			if err != nil {
				return err
			}
			fmt.Fprintf(a.err, "%d converted to %s, %d unchanged\n", result.Converted, version, result.PassedThrough)
			return a.writeYAML(func() ([]byte, error) { return result.Output, nil }, path)
		},
	}
	cmd.Flags().StringVarP(&path, "output", "o", "", "file to write to (default: standard output)")
	cmd.Flags().StringVar(&version, "to-version", upstream.SupportedTargetVersions[0], "API version to convert to")
	return cmd
}
