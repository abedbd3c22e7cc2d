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
		Use: "maintenance NAME --reason TEXT", Short: "Drain a host and take it out of use for a while",
		Long: `Takes a host in any state out of use for a while: it is drained as by capstan host drain, and then has the
state Maintenance. It may be off or reboot without causing alarms. capstan host uncordon ends the maintenance.

The command sets spec.maintenance of the CapstanHost.`,
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
				fmt.Fprintf(a.err, "No machine has host %s: you can switch the host off.\n", h.Name)
			} else {
				fmt.Fprintf(a.err, "Host %s is being drained: leave it on until it has the state Maintenance.\n", h.Name)
			}
			a.next("capstan host describe "+h.Name, "capstan host uncordon "+h.Name+"   # when the work is done")
			return nil
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason, for people who look at the host")
	wait.add(cmd, "wait until no machine has the host", drainLimit)
	return cmd
}
