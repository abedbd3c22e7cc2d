package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/local"
)

func (a *app) hostUncordonCommand() *cobra.Command {
	return &cobra.Command{
		Use: "uncordon NAME", Short: "Take a host into use again",
		Long: `Takes a host into use again that was cordoned, drained or in maintenance, whatever its state is. A machine
that is going already goes.`,
		Example:           "  capstan host uncordon rack1-07",
		ValidArgsFunction: a.completeHosts(anyHost),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			h, err := local.UncordonHost(cmd.Context(), c, a.hostKey(args[0]))
			if err != nil {
				return err
			}
			fmt.Fprintf(a.err, "Host %s may get machines.\n", h.Name)
			a.next("capstan host describe " + h.Name + "   # what it waits for")
			return nil
		},
	}
}
