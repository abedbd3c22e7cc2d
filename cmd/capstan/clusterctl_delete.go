package main

import (
	"fmt"

	"github.com/spf13/cobra"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"

	"github.com/capstan-dev/capstan/clusterctl"
)

func (a *app) clusterctlDeleteCommand(t *target) *cobra.Command {
	var o upstream.DeleteOptions
	cmd := &cobra.Command{Use: "delete", Short: "Remove providers, and with --include-crd their definitions and all objects of them", Args: cobra.NoArgs}
	providers := addProviderFlags(cmd)
	cmd.Flags().BoolVar(&o.DeleteAll, "all", false, "remove all providers")
	cmd.Flags().BoolVar(&o.IncludeNamespace, "include-namespace", false, "remove the providers' namespaces, too")
	cmd.Flags().BoolVar(&o.IncludeCRDs, "include-crd", false, "remove the providers' definitions, too, and with them all objects of these kinds")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		request, err := providers()
		if err != nil {
			return err
		}
		if o.DeleteAll == (len(request) > 0) {
			return hint("for example: capstan clusterctl delete --infrastructure NAME", "either name providers, or --all")
		}
		c, err := a.clusterctl(cmd, t, false)
		if err != nil {
			return err
		}
		if c.Embedded() && o.DeleteAll {
			return hint("capstan down --delete removes the plane", "--all would remove providers that can't go alone: %w", clusterctl.ErrPartOfThePlane)
		}
		if err := c.MayDelete(request); err != nil {
			return err
		}
		o.Kubeconfig, o.CoreProvider = c.Kubeconfig, core(request)
		o.BootstrapProviders = request[clusterctlv1.BootstrapProviderType]
		o.ControlPlaneProviders = request[clusterctlv1.ControlPlaneProviderType]
		o.InfrastructureProviders = request[clusterctlv1.InfrastructureProviderType]
		o.IPAMProviders = request[clusterctlv1.IPAMProviderType]
		o.RuntimeExtensionProviders = request[clusterctlv1.RuntimeExtensionProviderType]
		o.AddonProviders = request[clusterctlv1.AddonProviderType]
		if err := c.Delete(cmd.Context(), o); err != nil {
			return fmt.Errorf("removing providers: %w", err)
		}
		if c, err = a.clusterctl(cmd, t, false); err != nil {
			return err
		}
		return a.printProviders(c)
	}
	return cmd
}
