package main

import (
	"github.com/spf13/cobra"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/describe"
)

func (a *app) clusterListCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the clusters",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			list := &clusterv1.ClusterList{}
			if err := c.List(cmd.Context(), list, client.InNamespace(a.namespace)); err != nil {
				return hint("run: capstan status", "listing clusters: %w", err)
			}
			rows := make([]describe.Summary, 0, len(list.Items))
			for i := range list.Items {
				rows = append(rows, describe.Summarize(&list.Items[i]))
			}
			return a.print(format, rows, func() error {
				if len(rows) == 0 {
					a.next("capstan cluster create demo")
					return nil
				}
				cells := make([][]string, 0, len(rows))
				for _, r := range rows {
					cells = append(cells, []string{
						r.Name, dash(r.Phase), r.Available, r.ControlPlane, r.Workers, dash(r.Version),
						dash(r.Endpoint), age(r.Created), r.Message,
					})
				}
				return a.table([]string{
					"NAME", "PHASE", "AVAILABLE", "CONTROL PLANE", "WORKERS", "VERSION", "ENDPOINT", "AGE", "MESSAGE",
				}, cells)
			})
		},
	}
	outputFlag(cmd, &format)
	return cmd
}
