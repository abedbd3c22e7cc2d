package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/local"
)

func (a *app) hostRemoveCommand() *cobra.Command {
	var wait waiting
	var yes bool
	cmd := &cobra.Command{
		Use: "remove NAME", Aliases: []string{"rm"}, Short: "Remove a computer from the inventory",
		Long: `Removes a computer in any state from the inventory: a machine on it is removed first, as by capstan host drain,
and the host is cleaned. Then its CapstanHost and the account of its agent are deleted. The command shows the progress;
if you interrupt it, the removal continues. A removed computer can enroll again.

Local hosts can't be removed, because the plane would replace them: capstan up --hosts N sets their number.`,
		Example:           "  capstan host remove rack1-07",
		ValidArgsFunction: a.completeHosts(anyHost),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			d, err := local.DescribeHost(cmd.Context(), c, a.hostKey(args[0]))
			if err != nil {
				return err
			}
			if !yes && d.Machine != "" {
				fmt.Fprintf(a.err, "Machine %s of cluster %s is on host %s, and will be deleted. Remove the host? [y/N] ",
					d.Machine, d.Cluster, d.Name)
				if !confirmed(a.in) {
					return hint("answer y, or add --yes", "host %s was not removed", d.Name)
				}
			}
			h, err := local.RemoveHost(cmd.Context(), c, a.hostKey(args[0]))
			if err != nil {
				return err
			}
			if !wait.wait {
				fmt.Fprintf(a.err, "Host %s is being removed.\n", h.Name)
				a.next("capstan host describe " + h.Name + "   # shows its progress")
				return nil
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), wait.timeout)
			defer cancel()
			if err := a.steps().Run("host "+h.Name+" removed", func(detail func(string)) error {
				return local.WaitRemoved(ctx, c, a.hostKey(h.Name), detail)
			}); err != nil {
				return err
			}
			a.next("systemctl disable --now capstan-agent   # on that computer", "capstan host list")
			return nil
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "don't ask for confirmation")
	wait.add(cmd, "wait until the host is deleted", drainLimit)
	return cmd
}
