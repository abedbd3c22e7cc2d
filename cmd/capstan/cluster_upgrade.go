package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/topology"
)

func (a *app) clusterUpgradeCommand() *cobra.Command {
	var version string
	var wait waiting
	cmd := &cobra.Command{
		Use: "upgrade NAME", Short: "Change the Kubernetes version of a cluster, machine by machine, and wait",
		Long: `Changes the Kubernetes version of a cluster: control plane first, then workers, replacing each machine by one
of the new version. Capstan calls the lifecycle hooks around each part, and shows here which hook blocks.`,
		Example:           "  capstan cluster upgrade demo --kubernetes-version v1.36.3",
		ValidArgsFunction: a.completeCluster,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			version, err := a.versionOrNewest(version)
			if err != nil {
				return err
			}
			if _, err := a.bin.Kube(version); err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			cluster, err := a.cluster(ctx, c, args[0])
			if err != nil {
				return err
			}
			if err := topology.Upgrade(ctx, c, cluster, version); err != nil {
				return err
			}
			if !wait.wait {
				a.next("capstan cluster describe "+cluster.Name+" --watch", "capstan hook timeline "+cluster.Name)
				return nil
			}
			if err := a.waitForCluster(ctx, c, cluster.Name, wait.timeout); err != nil {
				return err
			}
			fmt.Fprintf(a.err, "Cluster %s runs Kubernetes %s.\n", cluster.Name, version)
			a.next("capstan hook timeline " + cluster.Name)
			return nil
		},
	}
	cmd.Flags().StringVar(&version, "kubernetes-version", "", "Kubernetes version (default: the newest bundle)")
	wait.add(cmd, "wait until all Nodes are Ready with the new version", 20*time.Minute)
	_ = cmd.RegisterFlagCompletionFunc("kubernetes-version", a.completeVersion)
	return cmd
}
