package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/templates"
	"github.com/capstan-dev/capstan/topology"
)

func (a *app) clusterUpgradeCommand() *cobra.Command {
	var version string
	var wait waiting
	cmd := &cobra.Command{
		Use: "upgrade NAME", Short: "Change the Kubernetes version of a cluster, machine by machine, and wait",
		Long: `Changes the Kubernetes version of a cluster: control plane first, then workers, replacing each machine by one
of the new version. Lifecycle hooks are called before and after each step; the command shows which hook blocks.`,
		Example:           "  capstan cluster upgrade demo --kubernetes-version v1.36.3",
		ValidArgsFunction: a.completeCluster,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			version, err := a.versionOrNewest(version)
			if err != nil {
				return err
			}
			_, missing := a.bin.Kube(version)
			c, cluster, err := a.clusterToChange(ctx, args[0])
			if missing != nil && (err != nil || cluster.Spec.Topology.ClassRef.Name != templates.OwnedClass) {
				return missing // owned hosts bring their own programs
			}
			if err != nil {
				return err
			}
			if cluster.Spec.Topology.ClassRef.Name == templates.OwnedClass {
				if err := a.warnOfBundles(version); err != nil {
					return err
				}
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

// clusterToChange returns a cluster and the client that reads and writes it.
func (a *app) clusterToChange(ctx context.Context, name string) (client.Client, *clusterv1.Cluster, error) {
	c, err := a.client()
	if err != nil {
		return nil, nil, err
	}
	cluster, err := a.cluster(ctx, c, name)
	return c, cluster, err
}
