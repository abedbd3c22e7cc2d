package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"

	"github.com/capstan-dev/capstan/clusterctl"
	"github.com/capstan-dev/capstan/describe"
)

func (a *app) clusterctlDescribeCommand(t *target) *cobra.Command {
	o := upstream.DescribeClusterOptions{AddTemplateVirtualNode: true}
	cmd := &cobra.Command{
		Use: "cluster NAME", Short: "Show a cluster as a tree", ValidArgsFunction: a.completeCluster,
		Long: `Show a cluster as a tree, as clusterctl does, on any management cluster.

capstan cluster describe also shows hosts and lifecycle hooks.`,
		Example: `  capstan clusterctl describe cluster demo
  capstan clusterctl describe cluster demo --show-conditions all --grouping=false
  capstan clusterctl describe cluster demo --kubeconfig other.kubeconfig`,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, filter := range strings.Split(o.ShowOtherConditions, ",") {
				if strings.TrimSpace(filter) != filter {
					return hint("for example: --show-conditions Machine,KubeadmControlPlane", "--show-conditions %q has spaces in it",
						o.ShowOtherConditions)
				}
			}
			c, err := a.clusterctl(cmd, t, false)
			if err != nil {
				return err
			}
			o.Kubeconfig, o.ClusterName, o.Namespace = c.Kubeconfig, args[0], a.namespace
			found, err := c.DescribeCluster(cmd.Context(), o)
			if err != nil {
				return fmt.Errorf("reading cluster %s in namespace %s: %w", args[0], a.namespace, err)
			}
			return describe.WriteWide(a.out, clusterctl.Tree(found), time.Now())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.ShowOtherConditions, "show-conditions", "",
		"kinds (or KIND/NAME) whose conditions to show, separated by commas, or all; a + at the end, as in "+
			"Machine+, leaves out good conditions")
	f.BoolVar(&o.ShowMachineSets, "show-machinesets", false, "show MachineSets")
	f.BoolVar(&o.ShowClusterResourceSets, "show-resourcesets", false, "show ClusterResourceSets")
	f.BoolVar(&o.ShowTemplates, "show-templates", false, "show templates of machines and bootstrap data")
	f.BoolVar(&o.Echo, "echo", false,
		"show infrastructure machines and bootstrap data even if they only repeat the state of their machine")
	f.BoolVar(&o.Grouping, "grouping", true, "show machines in the same state as one line")
	return cmd
}
