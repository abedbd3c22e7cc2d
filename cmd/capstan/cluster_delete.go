package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (a *app) clusterDeleteCommand() *cobra.Command {
	var wait waiting
	cmd := &cobra.Command{
		Use: "delete NAME", Short: "Delete a cluster and wait until its hosts are clean",
		Example:           "  capstan cluster delete demo",
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
			if err := c.Delete(ctx, cluster); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("deleting cluster %s: %w", cluster.Name, err)
			}
			if wait.wait {
				if err := a.waitForDeletion(ctx, c, cluster.Name, wait.timeout); err != nil {
					return err
				}
			}
			if err := os.Remove(a.home.ClusterKubeconfig(a.namespace, cluster.Name)); err != nil && !os.IsNotExist(err) {
				return fmt.Errorf("removing the kubeconfig of cluster %s: %w", cluster.Name, err)
			}
			return nil
		},
	}
	wait.add(cmd, "wait until the cluster is deleted", 10*time.Minute)
	return cmd
}
