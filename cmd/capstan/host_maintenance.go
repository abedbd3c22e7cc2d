package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/local"
)

func (a *app) hostMaintenanceCommand() *cobra.Command {
	var wait waiting
	var reason string
	cmd := &cobra.Command{
		Use: "maintenance NAME --reason TEXT", Short: "Take a host out of use for a while: it is drained, and may be off",
		Long: `Takes a host out of use for a while, in any state: it is drained as by capstan host drain, and its state is
Maintenance then. It may be off, or reboot, and nobody is alarmed. capstan host uncordon ends it.

It is spec.maintenance of the CapstanHost.`,
		Example:           "  capstan host maintenance rack1-07 --reason 'new disks'",
		ValidArgsFunction: a.completeHosts(anyHost),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			h, err := local.MaintainHost(cmd.Context(), c, a.hostKey(args[0]), reason)
			if err != nil {
				return err
			}
			if wait.wait {
				ctx, cancel := context.WithTimeout(cmd.Context(), wait.timeout)
				defer cancel()
				if err := a.steps().Run("host "+h.Name+" in maintenance", func(detail func(string)) error {
					return local.WaitDrained(ctx, c, a.hostKey(h.Name), detail)
				}); err != nil {
					return err
				}
				fmt.Fprintf(a.err, "No machine has host %s: it may be off.\n", h.Name)
			} else {
				fmt.Fprintf(a.err, "Host %s is being drained: leave it on until its state is Maintenance.\n", h.Name)
			}
			a.next("capstan host describe "+h.Name, "capstan host uncordon "+h.Name+"   # when it is over")
			return nil
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for people who look at the host")
	wait.add(cmd, "wait until no machine has the host", drainLimit)
	return cmd
}
