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
		Use: "drain NAME", Short: "Let the machine on a host go, and keep new ones away",
		Long: `Lets the machine on a host go in good order, and keeps new ones away: its Machine is deleted, Cluster API
drains the node by its rules, whoever owns the Machine replaces it on another host, and this host is cleaned. The only
machine of a control plane stays, and so does one without which there is no majority.

It is spec.drain of the CapstanHost, and shows what that waits for. It goes on by itself if nobody waits.`,
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
			a.next("capstan host describe "+h.Name, "capstan host uncordon "+h.Name+"   # takes it into use again")
			return nil
		},
	}
	wait.add(cmd, "wait until no machine has the host", drainLimit)
	return cmd
}
