package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"

	"github.com/capstan-dev/capstan/clusterctl"
)

func (a *app) clusterctlInitCommand(t *target) *cobra.Command {
	var targetNamespace string
	var binaries []string
	var wait bool
	var timeout seconds
	cmd := &cobra.Command{
		Use: "init", Short: "Install providers; what is a part of the management plane is there already", Args: cobra.NoArgs,
		Example: `  capstan clusterctl init --infrastructure capstan
  capstan clusterctl init --infrastructure docker --provider-binary docker=/opt/capd --wait-providers
  capstan clusterctl init --kubeconfig other.kubeconfig --config clusterctl.yaml --infrastructure capstan`,
	}
	providers := addProviderFlags(cmd)
	cmd.Flags().StringVar(&targetNamespace, "target-namespace", "", "namespace of the providers (default: --namespace if it is given, else each has its own)")
	binaryFlag(cmd, &binaries, providers)
	waitFlags(cmd, &wait, &timeout)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		request, err := providers()
		if err != nil {
			return err
		}
		if err := t.useBinaries(binaries, request); err != nil {
			return err
		}
		c, err := a.clusterctl(cmd, t, false)
		if err != nil {
			return err
		}
		if targetNamespace == "" && isSet(cmd, "namespace") { // clusterctl's -n
			targetNamespace = a.namespace
		}
		left := request
		if c.Embedded() {
			if left, err = c.ToInstall(ctx, request, targetNamespace); err != nil {
				return withUpgrade(err)
			}
			if len(left) == 0 {
				fmt.Fprintln(a.err, "Nothing to install.")
				return a.printProviders(c)
			}
		}
		done, err := a.allowBinaries(ctx, t)
		if err != nil {
			return err
		}
		defer done()
		o := initOptions(c, left)
		o.TargetNamespace, o.WaitProviders, o.WaitProviderTimeout = targetNamespace, wait, time.Duration(timeout)
		if _, err := c.Init(ctx, o); err != nil {
			return err
		}
		if c, err = a.clusterctl(cmd, t, false); err != nil {
			return err
		}
		return a.printProviders(c)
	}
	cmd.AddCommand(a.clusterctlListImagesCommand(t))
	return cmd
}

// clusterctlListImagesCommand shows which images an installation needs.
func (a *app) clusterctlListImagesCommand(t *target) *cobra.Command {
	cmd := &cobra.Command{Use: "list-images", Short: "List the container images that providers need, and install nothing", Args: cobra.NoArgs}
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
		images, err := c.InitImages(cmd.Context(), initOptions(c, request))
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

// initOptions are upstream's options for a request.
func initOptions(c *clusterctl.Client, request clusterctl.Request) upstream.InitOptions {
	return upstream.InitOptions{
		Kubeconfig: c.Kubeconfig, CoreProvider: core(request),
		BootstrapProviders:        request[clusterctlv1.BootstrapProviderType],
		ControlPlaneProviders:     request[clusterctlv1.ControlPlaneProviderType],
		InfrastructureProviders:   request[clusterctlv1.InfrastructureProviderType],
		IPAMProviders:             request[clusterctlv1.IPAMProviderType],
		RuntimeExtensionProviders: request[clusterctlv1.RuntimeExtensionProviderType],
		AddonProviders:            request[clusterctlv1.AddonProviderType],
	}
}
