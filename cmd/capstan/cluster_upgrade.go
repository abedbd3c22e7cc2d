package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	versionutil "k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (a *app) clusterUpgradeCommand() *cobra.Command {
	var version string
	var wait bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "upgrade NAME", Short: "Change the Kubernetes version of a cluster, machine by machine, and wait", Args: cobra.ExactArgs(1),
		Long: `Changes the Kubernetes version of a cluster: control plane first, then workers, each machine replaced by one of the new version.
The lifecycle hooks around each part are called; a hook that blocks stands in what is shown here.`,
		Example:           "  capstan cluster upgrade demo --kubernetes-version v1.36.3",
		ValidArgsFunction: a.completeCluster,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if version == "" {
				bundles := a.bin.Bundles()
				if len(bundles) == 0 {
					return hint("run: make build", "no Kubernetes bundle is built in %s/bundles", a.bin)
				}
				version = bundles[0]
			}
			if _, err := a.bin.Kube(version); err != nil {
				return err
			}
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
				return hint("change the version of its KubeadmControlPlane and MachineDeployments", "cluster %s has no topology", cluster.Name)
			}
			if err := checkUpgrade(topology.Version, version); err != nil {
				return err
			}
			before := cluster.DeepCopy()
			topology.Version = version
			if err := c.Patch(ctx, cluster, client.MergeFrom(before)); err != nil {
				return hint("try again", "changing cluster %s: %w", cluster.Name, err)
			}
			if !wait {
				a.next("capstan cluster describe "+cluster.Name+" --watch", "capstan hook timeline "+cluster.Name)
				return nil
			}
			if err := a.waitForCluster(ctx, c, cluster.Name, timeout); err != nil {
				return err
			}
			fmt.Fprintf(a.err, "Cluster %s runs Kubernetes %s.\n", cluster.Name, version)
			a.next("capstan hook timeline " + cluster.Name)
			return nil
		},
	}
	cmd.Flags().StringVar(&version, "kubernetes-version", "", "Kubernetes version (default: the newest bundle)")
	cmd.Flags().BoolVar(&wait, "wait", true, "wait until all Nodes are Ready with the new version")
	cmd.Flags().DurationVar(&timeout, "timeout", 20*time.Minute, "how long to wait")
	_ = cmd.RegisterFlagCompletionFunc("kubernetes-version", a.completeVersion)
	return cmd
}

// checkUpgrade finds what kubeadm would refuse: a step back, or one over a minor release. Pure.
func checkUpgrade(from, to string) error {
	old, err := versionutil.ParseSemantic(from)
	if err != nil {
		return fmt.Errorf("the cluster's version %q: %w", from, err)
	}
	wanted, err := versionutil.ParseSemantic(to)
	if err != nil {
		return hint("give it like v1.36.3", "--kubernetes-version %q: %w", to, err)
	}
	switch {
	case wanted.LessThan(old):
		return hint("make a new cluster of that version", "the cluster runs %s; Kubernetes does not go back to %s", from, to)
	case wanted.Major() != old.Major() || wanted.Minor() > old.Minor()+1:
		return hint(fmt.Sprintf("go to a v%d.%d release first", old.Major(), old.Minor()+1), "from %s to %s is more than one minor release", from, to)
	}
	return nil
}
