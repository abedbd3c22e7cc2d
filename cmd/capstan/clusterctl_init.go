package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/clusterctl"
)

func (a *app) clusterctlInitCommand(t *target) *cobra.Command {
	var i clusterctl.Installation
	var binaries []string
	cmd := &cobra.Command{
		Use: "init", Short: "Install providers that are not part of the management plane",
		Example: `  capstan clusterctl init --infrastructure capstan
  capstan clusterctl init --infrastructure docker --provider-binary docker=/opt/capd --wait-providers
  capstan clusterctl init --kubeconfig other.kubeconfig --config clusterctl.yaml --infrastructure capstan`,
	}
	providers := addProviderFlags(cmd)
	cmd.Flags().StringVar(&i.TargetNamespace, "target-namespace", "",
		"namespace of the providers (default: --namespace if set, else each provider's own)")
	binaryFlag(cmd, &binaries, providers)
	waitFlags(cmd, &i.Wait, &i.WaitTimeout)
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if i.Request, err = providers(); err != nil {
			return err
		}
		if err := t.useBinaries(binaries, i.Request); err != nil {
			return err
		}
		c, err := a.clusterctl(cmd, t, false)
		if err != nil {
			return err
		}
		if i.TargetNamespace == "" && cmd.Flags().Changed("namespace") { // clusterctl's -n
			i.TargetNamespace = a.namespace
		}
		installed, err := c.Install(cmd.Context(), i)
		if err != nil {
			return err
		}
		if !installed {
			fmt.Fprintln(a.err, "Nothing to install.")
			return a.printProviders(c)
		}
		return a.printProvidersNow(cmd, t)
	}
	cmd.AddCommand(a.clusterctlListImagesCommand(t))
	return cmd
}

// clusterctlListImagesCommand lists the images that an installation needs.
func (a *app) clusterctlListImagesCommand(t *target) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list-images", Short: "List the container images that providers need, and install nothing",
	}
	providers := addProviderFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		request, err := providers()
		if err != nil {
			return err
		}
		c, err := a.clusterctl(cmd, t, false)
		if err != nil {
			return err
		}
		images, err := c.Images(cmd.Context(), request)
		if err != nil {
			return err
		}
		for _, image := range images {
			fmt.Fprintln(a.out, image)
		}
		return nil
	}
	return cmd
}

// printProvidersNow reads the inventory again and prints the installed providers.
func (a *app) printProvidersNow(cmd *cobra.Command, t *target) error {
	c, err := a.clusterctl(cmd, t, false)
	if err != nil {
		return err
	}
	return a.printProviders(c)
}

// printProviders prints the installed providers.
func (a *app) printProviders(c *clusterctl.Client) error {
	var rows [][]string
	for _, kind := range clusterctl.Types {
		for _, p := range c.Installed {
			if p.Type != kind {
				continue
			}
			from := "clusterctl"
			if p.Embedded {
				from = "the plane"
			}
			rows = append(rows, []string{p.Label(), string(p.Type), p.Namespace, p.Version, from})
		}
	}
	return a.table([]string{"PROVIDER", "TYPE", "NAMESPACE", "VERSION", "PART OF"}, rows)
}
