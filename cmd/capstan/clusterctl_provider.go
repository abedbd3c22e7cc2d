package main

import (
	"github.com/spf13/cobra"
	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"
)

// clusterctlGenerateProviderCommand prints the components of a provider.
func (a *app) clusterctlGenerateProviderCommand(t *target) *cobra.Command {
	var o upstream.ComponentsOptions
	var raw, describe bool
	var path string
	cmd := &cobra.Command{
		Use: "provider", Short: "Generate the YAML of a provider",
		Example: `  capstan clusterctl generate provider --infrastructure capstan > components.yaml
  capstan clusterctl generate provider --infrastructure capstan --describe`,
	}
	providers := addProviderFlags(cmd)
	cmd.Flags().StringVar(&o.TargetNamespace, "target-namespace", "",
		"namespace of the provider (default: --namespace if set, else the provider's own)")
	cmd.Flags().BoolVar(&describe, "describe", false, "describe the provider instead: its type, images and variables")
	cmd.Flags().BoolVar(&raw, "raw", false, "do not replace variables")
	writeToFlag(cmd, &path)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		request, err := providers()
		if err != nil {
			return err
		}
		kind, name, err := request.Only()
		if err != nil {
			return err
		}
		c, err := a.clusterctl(cmd, t, true)
		if err != nil {
			return err
		}
		if o.TargetNamespace == "" && cmd.Flags().Changed("namespace") {
			o.TargetNamespace = a.namespace
		}
		o.SkipTemplateProcess = raw || describe
		components, err := c.Components(cmd.Context(), kind, name, o)
		if err != nil {
			return err
		}
		if describe {
			return a.describeProvider(components)
		}
		return a.writeYAML(components.Yaml, path)
	}
	return cmd
}

// describeProvider prints what is known about a provider before its installation.
func (a *app) describeProvider(components upstream.Components) error {
	rows := [][]string{
		{"Name", components.Name()}, {"Type", string(components.Type())}, {"URL", components.URL()},
		{"Version", components.Version()},
		{"Namespace", components.TargetNamespace()},
	}
	for _, image := range components.Images() {
		rows = append(rows, []string{"Image", image})
	}
	for _, name := range components.Variables() {
		rows = append(rows, []string{"Variable", name})
	}
	return a.table([]string{"WHAT", "VALUE"}, rows)
}
