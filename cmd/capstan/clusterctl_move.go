package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"

	"github.com/capstan-dev/capstan/clusterctl"
)

// destination is where a move goes to, and how agents get there.
type destination struct {
	kubeconfig  upstream.Kubeconfig
	server, ca  string
	agentsLimit time.Duration
}

// handOver returns what the library wants to know about it.
func (a *app) handOver(d *destination) (clusterctl.HandOver, error) {
	h := clusterctl.HandOver{
		Namespace: a.namespace, To: d.kubeconfig, Server: d.server, Timeout: d.agentsLimit,
		Tell: func(text string) { fmt.Fprintln(a.err, text) },
	}
	if d.ca == "" {
		return h, nil
	}
	var err error
	if h.CA, err = os.ReadFile(d.ca); err != nil {
		return h, fmt.Errorf("reading the certificate authority of the target: %w", err)
	}
	return h, nil
}

// callOffLine is the command that takes back what was offered.
func (a *app) callOffLine(t *target, d *destination) string {
	return "capstan clusterctl move call-off" + moveFlags(a.namespace, upstream.Kubeconfig{Path: t.kubeconfig, Context: t.context}, d.kubeconfig)
}

// moveFlags are the flags of a command about a namespace, and the management clusters that it goes from and to. Pure.
func moveFlags(namespace string, from, to upstream.Kubeconfig) string {
	text := " -n " + clusterctl.Quote(namespace)
	for _, f := range []struct{ name, value string }{
		{"kubeconfig", from.Path}, {"kubeconfig-context", from.Context}, {"to-kubeconfig", to.Path}, {"to-kubeconfig-context", to.Context},
	} {
		if f.value != "" {
			text += " --" + f.name + " " + clusterctl.Quote(f.value)
		}
	}
	return text
}

func (a *app) clusterctlMoveCommand(t *target) *cobra.Command {
	var d destination
	var dir directory
	var dryRun bool
	cmd := &cobra.Command{
		Use: "move", Short: "Move the clusters of a namespace to another management cluster", Args: cobra.NoArgs,
		Long: `Move the clusters of a namespace, with all that belongs to them, to another management cluster that has the same providers.

The agents of the hosts are told first, and go along; the machines on the hosts don't notice. Local hosts can't move: they are processes of this plane.`,
		Example: `  capstan clusterctl move --to-kubeconfig other.kubeconfig --dry-run -v 1
  capstan clusterctl move --to-kubeconfig other.kubeconfig
  capstan clusterctl move --to-directory saved`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if d.kubeconfig.Path == "" && !dryRun && !dir.given() {
				return hint("add --to-kubeconfig FILE, or --dry-run to see what would move", "no target was given")
			}
			c, err := a.clusterctl(cmd, t, false)
			if err != nil {
				return err
			}
			if dir.given() {
				return a.moveByDirectory(cmd.Context(), c, dir, d.kubeconfig)
			}
			if err := c.MayMove(cmd.Context(), a.namespace, d.kubeconfig); err != nil {
				return err
			}
			if !dryRun {
				if err := a.prepareMove(cmd.Context(), c, t, &d); err != nil {
					return err
				}
			}
			err = c.Move(cmd.Context(), upstream.MoveOptions{FromKubeconfig: c.Kubeconfig, ToKubeconfig: d.kubeconfig, Namespace: a.namespace, DryRun: dryRun})
			switch {
			case errors.Is(err, clusterctl.ErrClassGone):
				return hint("run: capstan down, then capstan up", "%w", err)
			case err != nil:
				return hint("clusters and their classes may be paused now, here or there: the same command names what resumes them here; see docs/clusterctl.md for how to go on", "moving the clusters of namespace %s: %w", a.namespace, err)
			}
			if !dryRun {
				a.next("capstan clusterctl describe cluster NAME" + moveFlags(a.namespace, d.kubeconfig, upstream.Kubeconfig{}))
			}
			return nil
		},
	}
	flags := cmd.PersistentFlags()
	flags.StringVar(&d.kubeconfig.Path, "to-kubeconfig", "", "kubeconfig of the management cluster that they go to")
	flags.StringVar(&d.kubeconfig.Context, "to-kubeconfig-context", "", "context of that kubeconfig (default: the current one)")
	flags.StringVar(&d.server, "agent-server", "", "URL by which the hosts reach that management cluster (default: as in its kubeconfig)")
	flags.StringVar(&d.ca, "agent-ca", "", "file with the certificates, in PEM, that sign that server's (default: as in its kubeconfig)")
	flags.DurationVar(&d.agentsLimit, "agent-timeout", 2*time.Minute, "how long to wait for the agents of the hosts")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "find out what would move, and move nothing; -v 1 shows it")
	cmd.Flags().StringVar(&dir.to, "to-directory", "", "save the objects there, and leave them where they are")
	cmd.Flags().StringVar(&dir.from, "from-directory", "", "restore what was saved there, into --to-kubeconfig (default: the management plane)")
	cmd.MarkFlagsMutuallyExclusive("to-directory", "from-directory", "dry-run")
	cmd.MarkFlagsMutuallyExclusive("to-directory", "to-kubeconfig")
	cmd.AddCommand(a.clusterctlMovePrepareCommand(t, &d), a.clusterctlMoveCallOffCommand(t, &d))
	return cmd
}

func (a *app) prepareMove(ctx context.Context, c *clusterctl.Client, t *target, d *destination) error {
	h, err := a.handOver(d)
	if err != nil {
		return err
	}
	if err := c.HandOver(ctx, h); err != nil {
		return hint("nothing has moved; take the offers back with: "+a.callOffLine(t, d), "handing agents over: %w", err)
	}
	return nil
}

func (a *app) clusterctlMovePrepareCommand(t *target, d *destination) *cobra.Command {
	return &cobra.Command{
		Use: "prepare", Short: "Hand the agents of the hosts over, for a move by clusterctl itself", Args: cobra.NoArgs,
		Long: `Tell the agents of the claimed hosts of a namespace about the management cluster that their clusters are going to move to, and wait until each has proved that it can work there.
Nothing moves yet. "capstan clusterctl move" does this by itself; clusterctl doesn't.`,
		Example: `  capstan clusterctl move prepare --to-kubeconfig other.kubeconfig && clusterctl move --to-kubeconfig other.kubeconfig`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if d.kubeconfig.Path == "" {
				return hint("add --to-kubeconfig FILE", "no target was given")
			}
			c, err := a.clusterctl(cmd, t, false)
			if err != nil {
				return err
			}
			if err := c.MayMove(cmd.Context(), a.namespace, d.kubeconfig); err != nil {
				return err
			}
			if err := a.prepareMove(cmd.Context(), c, t, d); err != nil {
				return err
			}
			a.next("clusterctl move"+moveFlags(a.namespace, c.Kubeconfig, d.kubeconfig), a.callOffLine(t, d)+"   # if they are to stay after all")
			return nil
		},
	}
}

func (a *app) clusterctlMoveCallOffCommand(t *target, d *destination) *cobra.Command {
	return &cobra.Command{
		Use: "call-off", Short: "Take back what agents were told about a move", Args: cobra.NoArgs,
		Long: `Take back what the agents of the hosts of a namespace were told about another management cluster, remove what was made for them there, and wait until they have forgotten it.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if d.kubeconfig.Path == "" {
				return hint("add --to-kubeconfig FILE", "no target was given")
			}
			c, err := a.clusterctl(cmd, t, false)
			if err != nil {
				return err
			}
			h, err := a.handOver(d)
			if err != nil {
				return err
			}
			taken, err := c.CallOff(cmd.Context(), h)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.err, "Offers taken back in namespace %s: %d.\n", a.namespace, taken)
			return nil
		},
	}
}
