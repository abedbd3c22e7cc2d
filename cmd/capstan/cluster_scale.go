package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/text"
	"github.com/capstan-dev/capstan/topology"
)

func (a *app) clusterScaleCommand() *cobra.Command {
	var controlPlane, workers int32
	var wait waiting
	cmd := &cobra.Command{
		Use: "scale NAME", Short: "Change the number of control plane machines or workers, and wait",
		Example:           "  capstan cluster scale demo --workers 3\n  capstan cluster scale demo --control-plane 3",
		ValidArgsFunction: a.completeCluster,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			c, err := a.client()
			if err != nil {
				return err
			}
			cluster, err := a.cluster(ctx, c, args[0])
			if err != nil {
				return err
			}
			size := topology.Size{}
			if cmd.Flags().Changed("control-plane") {
				size.ControlPlane = &controlPlane
			}
			if cmd.Flags().Changed("workers") {
				size.Workers = &workers
			}
			want, err := topology.Scale(ctx, c, cluster, size)
			if err != nil {
				return err
			}
			if !wait.wait {
				a.next("capstan cluster describe " + cluster.Name + " --watch")
				return nil
			}
			if err := a.waitForCluster(ctx, c, cluster.Name, wait.timeout); err != nil {
				return err
			}
			fmt.Fprintf(a.err, "Cluster %s has %s and %s.\n", cluster.Name,
				text.Count(int(want.ControlPlane), "control plane machine"), text.Count(int(want.Workers), "worker"))
			return nil
		},
	}
	cmd.Flags().Int32Var(&controlPlane, "control-plane", 1, "number of control plane machines: 1, 3 or 5")
	cmd.Flags().Int32Var(&workers, "workers", 0, "number of workers")
	wait.add(cmd, "wait until all Nodes are Ready", 10*time.Minute)
	return cmd
}
