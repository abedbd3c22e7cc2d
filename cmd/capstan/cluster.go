package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (a *app) clusterCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "cluster", Short: "Create, show, scale, upgrade and delete clusters", Aliases: []string{"clusters"},
	}
	cmd.AddCommand(a.clusterCreateCommand(), a.clusterListCommand(), a.clusterDescribeCommand(), a.clusterScaleCommand(),
		a.clusterUpgradeCommand(), a.clusterDeleteCommand(), a.clusterKubeconfigCommand())
	return cmd
}

// completeCluster completes the first argument with the names of clusters.
func (a *app) completeCluster(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if cmd.Root().PersistentPreRunE(cmd, args) != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	c, err := a.client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	list := &clusterv1.ClusterList{}
	if err := c.List(ctx, list, client.InNamespace(a.namespace)); err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	names := make([]string, 0, len(list.Items))
	for _, item := range list.Items {
		names = append(names, item.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeVersion completes a Kubernetes version with those that have a bundle.
func (a *app) completeVersion(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if cmd.Root().PersistentPreRunE(cmd, args) != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return a.bin.Bundles(), cobra.ShellCompDirectiveNoFileComp
}

// versionOrNewest returns the given Kubernetes version, or else the newest one that has a bundle.
func (a *app) versionOrNewest(version string) (string, error) {
	if version != "" {
		return version, nil
	}
	bundles := a.bin.Bundles()
	if len(bundles) == 0 {
		return "", hint("run: make build", "no Kubernetes bundle is built in %s/bundles", a.bin)
	}
	return bundles[0], nil
}
