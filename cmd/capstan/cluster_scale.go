package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (a *app) clusterScaleCommand() *cobra.Command {
	var controlPlane, workers int32
	var wait bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "scale NAME", Short: "Change the number of control plane machines or workers, and wait", Args: cobra.ExactArgs(1),
		Example:           "  capstan cluster scale demo --workers 3\n  capstan cluster scale demo --control-plane 3",
		ValidArgsFunction: a.completeCluster,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			c, err := a.client()
			if err != nil {
				return err
			}
			cluster, err := a.cluster(ctx, c, args[0])
			if err != nil {
				return err
			}
			topology := &cluster.Spec.Topology
			if !topology.IsDefined() {
				return hint("scale its KubeadmControlPlane and MachineDeployments with capstan kubectl scale", "cluster %s has no topology", cluster.Name)
			}
			changed := cmd.Flags().Changed
			if !changed("control-plane") && !changed("workers") {
				return hint("give --workers N or --control-plane N", "nothing to change")
			}
			before := cluster.DeepCopy()
			want := clusterRequest{name: cluster.Name, namespace: a.namespace, class: topology.ClassRef.Name, controlPlane: ptr.Deref(topology.ControlPlane.Replicas, 1)}
			if changed("control-plane") {
				want.controlPlane = controlPlane
				topology.ControlPlane.Replicas = ptr.To(controlPlane)
			}
			if changed("workers") {
				want.workers = workers
				mds := topology.Workers.MachineDeployments
				if len(mds) != 1 {
					return hint("edit it: capstan kubectl edit cluster "+cluster.Name, "cluster %s has %d machine deployments; --workers works with one", cluster.Name, len(mds))
				}
				mds[0].Replicas = ptr.To(workers)
			} else {
				want.workers = int32(wantedMachines(cluster)) - want.controlPlane
			}
			if err := want.validate(); err != nil {
				return err
			}
			if err := a.checkCreate(ctx, c, want); err != nil {
				return err
			}
			// Without an optimistic lock: the patch holds only what the user wants to change, and controllers write status and
			// annotations all the time. The list of machine deployments is replaced whole, hence the look at its length above.
			if err := c.Patch(ctx, cluster, client.MergeFrom(before)); err != nil {
				return hint("try again", "changing cluster %s: %w", cluster.Name, err)
			}
			if !wait {
				a.next("capstan cluster describe " + cluster.Name + " --watch")
				return nil
			}
			if err := a.waitForCluster(ctx, c, cluster.Name, timeout); err != nil {
				return err
			}
			fmt.Fprintf(a.err, "Cluster %s has %s and %s.\n", cluster.Name, some(want.controlPlane, "control plane machine"), some(want.workers, "worker"))
			return nil
		},
	}
	cmd.Flags().Int32Var(&controlPlane, "control-plane", 1, "number of control plane machines: 1, 3 or 5")
	cmd.Flags().Int32Var(&workers, "workers", 0, "number of workers")
	cmd.Flags().BoolVar(&wait, "wait", true, "wait until all Nodes are Ready")
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "how long to wait")
	return cmd
}
