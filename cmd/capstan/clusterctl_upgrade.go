package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"

	"github.com/capstan-dev/capstan/clusterctl"
)

func (a *app) clusterctlUpgradeCommand(t *target) *cobra.Command {
	upgrade := &cobra.Command{Use: "upgrade", Short: "Upgrade providers"}
	plan := &cobra.Command{
		Use: "plan", Short: "Show newer versions of providers",
		RunE: a.onCluster(t, false, func(ctx context.Context, c *clusterctl.Client, _ []string) error {
			plans, err := c.PlanUpgrade(ctx, upstream.PlanUpgradeOptions{Kubeconfig: c.Kubeconfig})
			if err != nil {
				return err
			}
			return a.printPlans(plans)
		}),
	}
	upgrade.AddCommand(plan, a.clusterctlApplyCommand(t))
	return upgrade
}

// printPlans prints the available upgrades.
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
	var u clusterctl.Upgrade
	var binaries []string
	cmd := &cobra.Command{
		Use: "apply", Short: "Upgrade providers to the given versions, or to the newest of a contract",
	}
	providers := addProviderFlags(cmd)
	cmd.Flags().StringVar(&u.Contract, "contract", "",
		"upgrade all providers to their newest versions for this contract, such as v1beta2")
	binaryFlag(cmd, &binaries, providers)
	waitFlags(cmd, &u.Wait, &u.WaitTimeout)
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if u.Request, err = providers(); err != nil {
			return err
		}
		if err := u.Check(); err != nil {
			return err
		}
		if err := t.useBinaries(binaries, u.Request); err != nil {
			return err
		}
		c, err := a.clusterctl(cmd, t, false)
		if err != nil {
			return err
		}
		return c.Upgrade(cmd.Context(), u)
	}
	return cmd
}
