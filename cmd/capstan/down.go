package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/local"
)

func (a *app) downCommand() *cobra.Command {
	var remove bool
	cmd := &cobra.Command{
		Use: "down", Short: "Stop the management plane and all local hosts; keep their data unless --delete is given",
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := local.Down(cmd.Context(), local.DownOptions{Home: string(a.home), Delete: remove, Progress: a.progress()})
			var none *local.NoPlaneError
			if errors.As(err, &none) {
				fmt.Fprintf(a.err, "Nothing to stop: %s does not exist.\n", none.Home)
				return nil
			}
			if err == nil && !remove {
				a.next("capstan up              start it again: nothing is lost", "capstan down --delete   remove everything")
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&remove, "delete", false, "remove everything, including the data of all clusters")
	return cmd
}
