package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"
)

func (a *app) clusterctlInitCommand(t *target) *cobra.Command {
	var targetNamespace string
	var wait bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "init", Short: "Install providers; what is a part of the management plane is there already", Args: cobra.NoArgs,
		Example: `  capstan clusterctl init --infrastructure capstan
  capstan clusterctl init --kubeconfig other.kubeconfig --config clusterctl.yaml --infrastructure capstan`,
	}
	providers := addProviderFlags(cmd)
	cmd.Flags().StringVar(&targetNamespace, "target-namespace", "", "namespace of the providers (default: each has its own)")
	cmd.Flags().BoolVar(&wait, "wait-providers", false, "wait until they work")
	cmd.Flags().DurationVar(&timeout, "wait-provider-timeout", 5*time.Minute, "how long to wait for each")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		request, err := providers()
		if err != nil {
			return err
		}
		c, err := a.clusterctl(cmd, t, false)
		if err != nil {
			return err
		}
		left := request
		if c.Embedded() {
			if left, err = c.ToInstall(ctx, request, targetNamespace); err != nil {
				return err
			}
			if len(left) == 0 {
				fmt.Fprintln(a.err, "Nothing to install.")
				return a.printProviders(c)
			}
		}
		if _, err := c.Init(ctx, upstream.InitOptions{
			Kubeconfig: c.Kubeconfig, CoreProvider: core(left),
			BootstrapProviders:        left[clusterctlv1.BootstrapProviderType],
			ControlPlaneProviders:     left[clusterctlv1.ControlPlaneProviderType],
			InfrastructureProviders:   left[clusterctlv1.InfrastructureProviderType],
			IPAMProviders:             left[clusterctlv1.IPAMProviderType],
			RuntimeExtensionProviders: left[clusterctlv1.RuntimeExtensionProviderType],
			AddonProviders:            left[clusterctlv1.AddonProviderType],
			TargetNamespace:           targetNamespace, WaitProviders: wait, WaitProviderTimeout: timeout,
		}); err != nil {
			return err
		}
		if c, err = a.clusterctl(cmd, t, false); err != nil {
			return err
		}
		return a.printProviders(c)
	}
	return cmd
}
