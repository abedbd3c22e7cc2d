package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (a *app) clusterDeleteCommand() *cobra.Command {
	var wait bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "delete NAME", Short: "Delete a cluster and wait until its hosts are clean", Args: cobra.ExactArgs(1),
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
			if wait {
				if err := a.waitForDeletion(ctx, c, cluster.Name, timeout); err != nil {
					return err
				}
			}
			if err := os.Remove(a.home.ClusterKubeconfig(a.namespace, cluster.Name)); err != nil && !os.IsNotExist(err) {
				return fmt.Errorf("removing the kubeconfig of cluster %s: %w", cluster.Name, err)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", true, "wait until it is gone")
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "how long to wait")
	return cmd
}

func (a *app) waitForDeletion(ctx context.Context, c client.Client, name string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return a.steps().Run("cluster "+name+" deleted", func(detail func(string)) error {
		last := ""
		err := poll(ctx, func() (bool, error) {
			cluster := &clusterv1.Cluster{}
			err := c.Get(ctx, client.ObjectKey{Namespace: a.namespace, Name: name}, cluster)
			if apierrors.IsNotFound(err) {
				return true, nil
			}
			if err != nil {
				return false, err
			}
			if m := message(cluster.Status.Conditions, clusterv1.ClusterDeletingCondition); m != "" {
				last = strings.TrimPrefix(m, "* ")
				detail(last)
			}
			return false, nil
		})
		if ctx.Err() != nil && err != nil {
			return hint("it goes on in the background; see: capstan cluster describe "+name, "stopped waiting for the deletion of cluster %s: %s", name, last)
		}
		return err
	})
}
