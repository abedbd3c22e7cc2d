package main

import (
	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/describe"
)

func (a *app) clusterDescribeCommand() *cobra.Command {
	var watch bool
	var format string
	cmd := &cobra.Command{
		Use:               "describe NAME",
		Short:             "Show a cluster as a tree: machines, hosts, conditions; its pods; the hooks that were called",
		Example:           "  capstan cluster describe demo\n  capstan cluster describe demo --watch",
		ValidArgsFunction: a.completeCluster,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			c, err := a.client()
			if err != nil {
				return err
			}
			if _, err := a.cluster(ctx, c, args[0]); err != nil {
				return err
			}
			if watch {
				return describe.Watch(ctx, c, a.key(args[0]), a.out)
			}
			objects, err := describe.Read(ctx, c, a.key(args[0]))
			if err != nil {
				return err
			}
			pods, unknown := a.podsOf(ctx, c, objects.Cluster)
			return a.print(format, clusterDetails{objects, pods}, func() error {
				if err := describe.Write(a.out, describe.Tree(objects)); err != nil {
					return err
				}
				a.writePods(objects.Cluster, pods, unknown)
				return a.writeHooks(args[0])
			})
		},
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false,
		"show the cluster again after each change, until it is deleted or you press ctrl-c")
	outputFlag(cmd, &format)
	return cmd
}
