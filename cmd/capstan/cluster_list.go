package main

import (
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// clusterRow is a line of "cluster list"; its JSON form is stable.
type clusterRow struct {
	Name         string      `json:"name"`
	Phase        string      `json:"phase"`
	Available    string      `json:"available"`
	ControlPlane string      `json:"controlPlane"`
	Workers      string      `json:"workers"`
	Version      string      `json:"version"`
	Endpoint     string      `json:"endpoint"`
	Created      metav1.Time `json:"created"`
	Message      string      `json:"message,omitempty"`
}

// rowOf sums up a cluster. Pure.
func rowOf(cluster *clusterv1.Cluster) clusterRow {
	row := clusterRow{
		Name: cluster.Name, Phase: cluster.Status.Phase, Available: "Unknown",
		Version: cluster.Spec.Topology.Version, Created: cluster.CreationTimestamp,
		ControlPlane: fmt.Sprintf("0/%d", ptr.Deref(cluster.Spec.Topology.ControlPlane.Replicas, 1)),
	}
	workers := int32(0)
	for _, md := range cluster.Spec.Topology.Workers.MachineDeployments {
		workers += ptr.Deref(md.Replicas, 1)
	}
	row.Workers = fmt.Sprintf("0/%d", workers)
	if s := cluster.Status.ControlPlane; s != nil {
		row.ControlPlane = fmt.Sprintf("%d/%d", ptr.Deref(s.ReadyReplicas, 0), ptr.Deref(s.DesiredReplicas, 0))
	}
	if s := cluster.Status.Workers; s != nil {
		row.Workers = fmt.Sprintf("%d/%d", ptr.Deref(s.ReadyReplicas, 0), ptr.Deref(s.DesiredReplicas, 0))
	}
	if c := condition(cluster.Status.Conditions, clusterv1.ClusterAvailableCondition); c != nil {
		row.Available, row.Message = string(c.Status), oneLine(c.Message, 80)
	}
	if e := cluster.Spec.ControlPlaneEndpoint; !e.IsZero() {
		row.Endpoint = fmt.Sprintf("%s:%d", e.Host, e.Port)
	}
	return row
}

func (a *app) clusterListCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the clusters", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			list := &clusterv1.ClusterList{}
			if err := c.List(cmd.Context(), list, client.InNamespace(a.namespace)); err != nil {
				return hint("run: capstan status", "listing clusters: %w", err)
			}
			rows := make([]clusterRow, 0, len(list.Items))
			for i := range list.Items {
				rows = append(rows, rowOf(&list.Items[i]))
			}
			return a.print(format, rows, func() error {
				if len(rows) == 0 {
					a.next("capstan cluster create demo")
					return nil
				}
				cells := make([][]string, 0, len(rows))
				for _, r := range rows {
					cells = append(cells, []string{r.Name, dash(r.Phase), r.Available, r.ControlPlane, r.Workers, dash(r.Version), dash(r.Endpoint), age(r.Created), r.Message})
				}
				return a.table([]string{"NAME", "PHASE", "AVAILABLE", "CONTROL PLANE", "WORKERS", "VERSION", "ENDPOINT", "AGE", "MESSAGE"}, cells)
			})
		},
	}
	outputFlag(cmd, &format)
	return cmd
}
