package main

import (
	"github.com/spf13/cobra"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"

	"github.com/capstan-dev/capstan/clusterctl"
)

// clusterctlGenerateProviderCommand prints the components of a provider.
func (a *app) clusterctlGenerateProviderCommand(t *target) *cobra.Command {
	var o upstream.ComponentsOptions
	var raw, describe bool
	var path string
	cmd := &cobra.Command{
		Use: "provider", Short: "Generate the YAML of a provider", Args: cobra.NoArgs,
		Example: `  capstan clusterctl generate provider --infrastructure capstan > components.yaml
  capstan clusterctl generate provider --infrastructure capstan --describe`,
	}
	providers := addProviderFlags(cmd)
	cmd.Flags().StringVar(&o.TargetNamespace, "target-namespace", "", "namespace of the provider (default: --namespace if it is given, else the provider's own)")
	cmd.Flags().BoolVar(&describe, "describe", false, "tell what the provider is, its images and variables, instead")
	cmd.Flags().BoolVar(&raw, "raw", false, "leave variables as they are")
	writeToFlag(cmd, &path)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		request, err := providers()
		if err != nil {
			return err
		}
		kind, name, err := one(request)
		if err != nil {
			return err
		}
		c, err := a.clusterctl(cmd, t, true)
		if err != nil {
			return err
		}
		if o.TargetNamespace == "" && isSet(cmd, "namespace") {
			o.TargetNamespace = a.namespace
		}
		o.SkipTemplateProcess = raw || describe
		components, err := c.GenerateProvider(cmd.Context(), name, kind, o)
		if err != nil {
			return hint("components are in the repository of a release, which --config names; this binary carries cluster templates only", "reading the components of %s %s: %w", kind, name, err)
		}
		if describe {
			return a.describeProvider(components)
		}
		return a.writeYAML(components.Yaml, path)
	}
	return cmd
}

// one returns the only provider of a request.
func one(request clusterctl.Request) (kind clusterctlv1.ProviderType, name string, err error) {
	n := 0
	for k, names := range request {
		for _, ref := range names {
			kind, name = k, ref
			n++
		}
	}
	if n != 1 {
		return "", "", hint("for example: --infrastructure capstan", "%d providers are named, want one", n)
	}
	return kind, name, nil
}

// describeProvider tells what there is to know of a provider before it is installed.
func (a *app) describeProvider(components upstream.Components) error {
	rows := [][]string{
		{"Name", components.Name()}, {"Type", string(components.Type())}, {"URL", components.URL()}, {"Version", components.Version()},
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
