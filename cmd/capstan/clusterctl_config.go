package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/clusterctl"
)

// clusterctlConfigCommand shows the providers that clusterctl knows.
func (a *app) clusterctlConfigCommand(t *target) *cobra.Command {
	var format string
	repositories := &cobra.Command{
		Use: "repositories", Short: "List the known providers and their sources",
		RunE: a.onCluster(t, true, func(_ context.Context, c *clusterctl.Client, _ []string) error {
			known, err := c.Known()
			if err != nil {
				return err
			}
			rows := make([][]string, 0, len(known))
			for _, p := range known {
				rows = append(rows, []string{p.Name, string(p.Type), p.URL})
			}
			return a.print(format, known, func() error { return a.table([]string{"NAME", "TYPE", "URL"}, rows) })
		}),
	}
	outputFlag(repositories, &format)
	config := &cobra.Command{Use: "config", Short: "Show clusterctl's configuration"}
	config.AddCommand(repositories)
	return config
}
