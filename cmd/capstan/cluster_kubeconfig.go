package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/local"
)

func (a *app) clusterKubeconfigCommand() *cobra.Command {
	return &cobra.Command{
		Use: "kubeconfig NAME", Short: "Print a kubeconfig that reaches a cluster from this machine",
		Example:           "  capstan cluster kubeconfig demo > demo.kubeconfig",
		ValidArgsFunction: a.completeCluster,
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := a.clusterKubeconfig(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return fmt.Errorf("reading the kubeconfig of cluster %s: %w", args[0], err)
			}
			_, err = a.out.Write(data)
			return err
		},
	}
}

// clusterKubeconfig writes a kubeconfig with which this machine reaches a cluster, and returns its path.
func (a *app) clusterKubeconfig(ctx context.Context, name string) (string, error) {
	c, err := a.client()
	if err != nil {
		return "", err
	}
	cluster, err := a.cluster(ctx, c, name)
	if err != nil {
		return "", err
	}
	return local.ClusterKubeconfig(ctx, string(a.home), c, cluster)
}
