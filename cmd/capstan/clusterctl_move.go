package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/clusterctl"
)

// destination holds the flags that say where a move goes and how agents get there.
type destination struct {
	clusterctl.HandOver

	ca string
}

// handOver returns the hand-over options for the library.
func (a *app) handOver(d *destination) (h clusterctl.HandOver, err error) {
	h = d.HandOver
	h.Namespace, h.Tell = a.namespace, func(text string) { fmt.Fprintln(a.err, text) }
	if d.ca != "" {
		if h.CA, err = os.ReadFile(d.ca); err != nil {
			return h, fmt.Errorf("reading the certificate authority of the target: %w", err)
		}
	}
	return h, nil
}

// noTarget returns the error for a move without a target.
func noTarget(advice string) error {
	return hint("add --to-kubeconfig FILE"+advice, "no target was given")
}

func (a *app) clusterctlMoveCommand(t *target) *cobra.Command {
	var d destination
	var save, restore string
	var dryRun bool
	cmd := &cobra.Command{
		Use: "move", Short: "Move the clusters of a namespace to another management cluster",
		Long: `Move the clusters of a namespace, with all their objects, to another management cluster that has the same
providers.

It first hands over the agents of the hosts, which then work for the target; machines on the hosts are not disturbed.
Local hosts can't move: they are processes of this plane.`,
		Example: `  capstan clusterctl move --to-kubeconfig other.kubeconfig --dry-run -v 1
  capstan clusterctl move --to-kubeconfig other.kubeconfig
  capstan clusterctl move --to-directory saved`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if d.To.Path == "" && !dryRun && save+restore == "" {
				return noTarget(", or --dry-run to see what would move")
			}
			c, err := a.clusterctl(cmd, t, false)
			if err != nil {
				return err
			}
			switch ctx := cmd.Context(); {
			case save != "":
				if err := c.SaveClusters(ctx, a.namespace, save); err != nil {
					return err
				}
				fmt.Fprintf(a.err, "Saved to %s. The files contain credentials of the clusters.\n", save)
				return nil
			case restore != "":
				return c.RestoreClusters(ctx, a.namespace, restore, d.To)
			}
			return a.moveClusters(cmd, c, &d, dryRun)
		},
	}
	flags := cmd.PersistentFlags()
	flags.StringVar(&d.To.Path, "to-kubeconfig", "", "kubeconfig of the target management cluster")
	flags.StringVar(&d.To.Context, "to-kubeconfig-context", "",
		"context of that kubeconfig (default: the current one)")
	flags.StringVar(&d.Server, "agent-server", "",
		"URL at which the hosts reach the target (default: as in its kubeconfig)")
	flags.StringVar(&d.ca, "agent-ca", "",
		"file with the authorities of that server's certificate, in PEM form (default: as in its kubeconfig)")
	flags.DurationVar(&d.Timeout, "agent-timeout", 2*time.Minute, "how long to wait for the agents of the hosts")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "check what would move, and move nothing; -v 1 lists it")
	cmd.Flags().StringVar(&save, "to-directory", "", "save the objects to this directory, and leave them in place")
	cmd.Flags().StringVar(&restore, "from-directory", "",
		"restore the objects saved in this directory into --to-kubeconfig (default: the management plane)")
	cmd.MarkFlagsMutuallyExclusive("to-directory", "from-directory", "dry-run")
	cmd.MarkFlagsMutuallyExclusive("to-directory", "to-kubeconfig")
	cmd.AddCommand(a.clusterctlMovePrepareCommand(t, &d), a.clusterctlMoveCallOffCommand(t, &d))
	return cmd
}

func (a *app) moveClusters(cmd *cobra.Command, c *clusterctl.Client, d *destination, dryRun bool) error {
	if dryRun {
		d.ca = "" // don't tell the agents about the authority
	}
	h, err := a.handOver(d)
	if err != nil {
		return err
	}
	if err := c.MoveClusters(cmd.Context(), h, dryRun); err != nil {
		return err
	}
	if !dryRun {
		a.next(clusterctl.DescribeCommand(h))
	}
	return nil
}

// openMove opens both sides of a move, for commands that need a target.
func (a *app) openMove(cmd *cobra.Command, t *target, d *destination) (*clusterctl.Client, clusterctl.HandOver, error) {
	if d.To.Path == "" {
		return nil, d.HandOver, noTarget("")
	}
	c, err := a.clusterctl(cmd, t, false)
	if err != nil {
		return nil, d.HandOver, err
	}
	h, err := a.handOver(d)
	return c, h, err
}

func (a *app) clusterctlMovePrepareCommand(t *target, d *destination) *cobra.Command {
	return &cobra.Command{
		Use: "prepare", Short: "Hand over the agents of the hosts before a move with upstream's clusterctl",
		Long: `Offer the target management cluster to the agents of a namespace's claimed hosts, and wait until each agent has
proved that it can work there. Nothing moves yet. "capstan clusterctl move" includes this step; upstream's clusterctl
doesn't.`,
		Example: `  capstan clusterctl move prepare --to-kubeconfig other.kubeconfig && clusterctl move --to-kubeconfig other.kubeconfig`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, h, err := a.openMove(cmd, t, d)
			if err != nil {
				return err
			}
			if err := c.PrepareMove(cmd.Context(), h); err != nil {
				return err
			}
			a.next(c.MoveCommand(h), c.CallOffCommand(h)+"   # if they stay after all")
			return nil
		},
	}
}

func (a *app) clusterctlMoveCallOffCommand(t *target, d *destination) *cobra.Command {
	return &cobra.Command{
		Use: "call-off", Short: "Call off the hand-over of the agents of the hosts",
		Long: `Withdraw the offers to the agents of a namespace's hosts, delete what was created for them in the target, and
wait until the agents have dropped the offers.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, h, err := a.openMove(cmd, t, d)
			if err != nil {
				return err
			}
			offers, err := c.CallOff(cmd.Context(), h)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.err, "Offers withdrawn in namespace %s: %d.\n", a.namespace, offers)
			return nil
		},
	}
}
