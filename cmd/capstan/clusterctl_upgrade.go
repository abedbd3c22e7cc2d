package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"

	"github.com/capstan-dev/capstan/clusterctl"
)

func (a *app) clusterctlUpgradeCommand(t *target) *cobra.Command {
	upgrade := &cobra.Command{Use: "upgrade", Short: "Upgrade providers"}
	plan := &cobra.Command{
		Use: "plan", Short: "Show which newer versions of providers there are", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.clusterctl(cmd, t, false)
			if err != nil {
				return err
			}
			plans, err := c.PlanUpgrade(cmd.Context(), upstream.PlanUpgradeOptions{Kubeconfig: c.Kubeconfig})
			if err != nil {
				return err
			}
			return a.printPlans(plans)
		},
	}
	upgrade.AddCommand(plan, a.clusterctlApplyCommand(t))
	return upgrade
}

// printPlans shows what there is to upgrade to.
func (a *app) printPlans(plans []upstream.UpgradePlan) error {
	var rows [][]string
	for _, plan := range plans {
		for _, item := range plan.Providers {
			next := item.NextVersion
			if next == "" {
				next = "up to date"
			}
			rows = append(rows, []string{item.Name, item.Namespace, item.Type, item.Version, next})
		}
	}
	if len(rows) == 0 {
		fmt.Fprintln(a.err, "There are no providers.")
		return nil
	}
	return a.table([]string{"PROVIDER", "NAMESPACE", "TYPE", "VERSION", "NEXT"}, rows)
}

func (a *app) clusterctlApplyCommand(t *target) *cobra.Command {
	var contract string
	var binaries []string
	var wait bool
	var timeout seconds
	cmd := &cobra.Command{Use: "apply", Short: "Upgrade providers to the versions that are named, or to the newest of a contract", Args: cobra.NoArgs}
	providers := addProviderFlags(cmd)
	cmd.Flags().StringVar(&contract, "contract", "", "upgrade all providers to their newest versions for this contract, such as v1beta2")
	binaryFlag(cmd, &binaries, providers)
	waitFlags(cmd, &wait, &timeout)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		request, err := providers()
		if err != nil {
			return err
		}
		if (contract == "") == (len(request) == 0) {
			return hint("see what there is: capstan clusterctl upgrade plan", "either name providers with their versions, or --contract")
		}
		if err := t.useBinaries(binaries, request); err != nil {
			return err
		}
		c, err := a.clusterctl(cmd, t, false)
		if err != nil {
			return err
		}
		if c.Embedded() && contract != "" {
			return fmt.Errorf("--contract would upgrade all providers, of which some can't be upgraded alone: %w", clusterctl.ErrPartOfThePlane)
		}
		if err := c.MayChange(cmd.Context(), request); err != nil {
			return err
		}
		done, err := a.allowBinaries(cmd.Context(), t)
		if err != nil {
			return err
		}
		defer done()
		return c.ApplyUpgrade(cmd.Context(), upstream.ApplyUpgradeOptions{
			Kubeconfig: c.Kubeconfig, Contract: contract, CoreProvider: core(request),
			BootstrapProviders:        request[clusterctlv1.BootstrapProviderType],
			ControlPlaneProviders:     request[clusterctlv1.ControlPlaneProviderType],
			InfrastructureProviders:   request[clusterctlv1.InfrastructureProviderType],
			IPAMProviders:             request[clusterctlv1.IPAMProviderType],
			RuntimeExtensionProviders: request[clusterctlv1.RuntimeExtensionProviderType],
			AddonProviders:            request[clusterctlv1.AddonProviderType],
			WaitProviders:             wait, WaitProviderTimeout: time.Duration(timeout),
		})
	}
	return cmd
}
