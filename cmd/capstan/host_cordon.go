package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/local"
)

func (a *app) hostCordonCommand() *cobra.Command {
	return &cobra.Command{
		Use: "cordon NAME", Short: "Keep new machines away from a host",
		Long: `Keeps new machines away from a host in any state. A machine on it stays; capstan host drain removes it. The
command sets spec.unschedulable of the CapstanHost.`,
		Example:           "  capstan host cordon rack1-07",
		ValidArgsFunction: a.completeHosts(anyHost),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			h, err := local.CordonHost(cmd.Context(), c, a.hostKey(args[0]))
			if err != nil {
				return err
			}
			fmt.Fprintf(a.err, "Host %s gets no new machine.\n", h.Name)
			if h.Spec.Claim != nil {
				fmt.Fprintf(a.err, "Machine %s stays on it.\n", h.Spec.Claim.Machine)
				a.next("capstan host drain "+h.Name+"   # removes its machine", "capstan host uncordon "+h.Name)
				return nil
			}
			a.next("capstan host uncordon " + h.Name)
			return nil
		},
	}
}
