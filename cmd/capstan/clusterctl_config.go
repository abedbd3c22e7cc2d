package main

import (
	"github.com/spf13/cobra"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
)

// clusterctlConfigCommand shows which providers clusterctl knows.
func (a *app) clusterctlConfigCommand(t *target) *cobra.Command {
	var format string
	repositories := &cobra.Command{
		Use: "repositories", Short: "List the providers that are known, and where they come from", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.clusterctl(cmd, t, true)
			if err != nil {
				return err
			}
			all, err := c.GetProvidersConfig()
			if err != nil {
				return err
			}
			type known struct {
				Name string                    `json:"name"`
				Type clusterctlv1.ProviderType `json:"type"`
				URL  string                    `json:"url"`
			}
			list, rows := make([]known, 0, len(all)), make([][]string, 0, len(all))
			for _, p := range all {
				list = append(list, known{p.Name(), p.Type(), p.URL()})
				rows = append(rows, []string{p.Name(), string(p.Type()), p.URL()})
			}
			return a.print(format, list, func() error { return a.table([]string{"NAME", "TYPE", "URL"}, rows) })
		},
	}
	outputFlag(repositories, &format)
	config := &cobra.Command{Use: "config", Short: "Show clusterctl's configuration"}
	config.AddCommand(repositories)
	return config
}
