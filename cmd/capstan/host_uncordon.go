package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/local"
)

func (a *app) hostUncordonCommand() *cobra.Command {
	return &cobra.Command{
		Use: "uncordon NAME", Short: "Put a host back into use",
		Long: `Puts a host that was cordoned, drained or in maintenance back into use, in any state. It does not stop the
deletion of a machine that has begun.`,
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
			a.next("capstan host describe " + h.Name + "   # shows what it waits for")
			return nil
		},
	}
}
