package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/local"
)

// drainLimit is how long to wait for a drain: nodes may take long to drain.
const drainLimit = 20 * time.Minute

func (a *app) hostDrainCommand() *cobra.Command {
	var wait waiting
	cmd := &cobra.Command{
		Use: "drain NAME", Short: "Remove the machine from a host in an orderly way, and keep new ones away",
		Long: `Removes the machine from a host in an orderly way, and keeps new ones away: its Machine is deleted, Cluster API
drains the node by its rules, the Machine's owner replaces it on another host, and this host is cleaned. A machine stays
if its control plane would lose its last member or its majority.

The command sets spec.drain of the CapstanHost and shows its progress. If you interrupt it, the drain continues.`,
		Example:           "  capstan host drain rack1-07\n  capstan host drain rack1-07 --wait=false",
		ValidArgsFunction: a.completeHosts(anyHost),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			h, err := local.DrainHost(cmd.Context(), c, a.hostKey(args[0]))
			if err != nil {
				return err
			}
			if wait.wait {
				ctx, cancel := context.WithTimeout(cmd.Context(), wait.timeout)
				defer cancel()
				if err := a.steps().Run("host "+h.Name+" drained", func(detail func(string)) error {
					return local.WaitDrained(ctx, c, a.hostKey(h.Name), detail)
				}); err != nil {
					return err
				}
			} else {
				fmt.Fprintf(a.err, "Host %s is being drained.\n", h.Name)
			}
			a.next("capstan host describe "+h.Name, "capstan host uncordon "+h.Name+"   # puts it back into use")
			return nil
		},
	}
	wait.add(cmd, "wait until no machine has the host", drainLimit)
	return cmd
}
