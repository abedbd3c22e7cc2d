package main

import (
	"github.com/spf13/cobra"
	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"
)

func (a *app) clusterctlMoveCommand(t *target) *cobra.Command {
	var to upstream.Kubeconfig
	var dryRun bool
	cmd := &cobra.Command{
		Use: "move", Short: "Move the clusters of a namespace to another management cluster", Args: cobra.NoArgs,
		Long: `Move the clusters of a namespace, with all that belongs to them, to another management cluster that has the same providers.

Local hosts can't move: they are processes of this plane.`,
		Example: `  capstan clusterctl move --to-kubeconfig other.kubeconfig --dry-run -v 1
  capstan clusterctl move --to-kubeconfig other.kubeconfig`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to.Path == "" && !dryRun {
				return hint("add --to-kubeconfig FILE, or --dry-run to see what would move", "no target was given")
			}
			c, err := a.clusterctl(cmd, t, false)
			if err != nil {
				return err
			}
			if err := c.MayMove(cmd.Context(), a.namespace, to); err != nil {
				return err
			}
			if err := c.Move(cmd.Context(), upstream.MoveOptions{FromKubeconfig: c.Kubeconfig, ToKubeconfig: to, Namespace: a.namespace, DryRun: dryRun}); err != nil {
				return hint("the clusters may be paused now, here or there; see docs/clusterctl.md for how to go on", "moving the clusters of namespace %s: %w", a.namespace, err)
			}
			if !dryRun {
				a.next("capstan clusterctl describe cluster NAME --kubeconfig " + to.Path)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&to.Path, "to-kubeconfig", "", "kubeconfig of the management cluster that they go to")
	cmd.Flags().StringVar(&to.Context, "to-kubeconfig-context", "", "context of that kubeconfig (default: the current one)")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "find out what would move, and move nothing; -v 1 shows it")
	return cmd
}
