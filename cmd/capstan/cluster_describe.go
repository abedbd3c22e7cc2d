package main

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

func (a *app) clusterDescribeCommand() *cobra.Command {
	var watch bool
	var format string
	cmd := &cobra.Command{
		Use: "describe NAME", Short: "Show a cluster as a tree: machines, hosts, conditions, and the hooks that were called", Args: cobra.ExactArgs(1),
		ValidArgsFunction: a.completeCluster,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			c, err := a.client()
			if err != nil {
				return err
			}
			if _, err := a.cluster(ctx, c, args[0]); err != nil {
				return err
			}
			if watch {
				return a.watchCluster(ctx, c, args[0])
			}
			objects, err := a.objectsOf(ctx, c, args[0])
			if err != nil {
				return err
			}
			return a.print(format, objects, func() error {
				writeTree(a.out, treeOf(objects))
				return a.writeHooks(args[0])
			})
		},
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show it again whenever it changes, until it is gone or ctrl-c")
	outputFlag(cmd, &format)
	return cmd
}

// watchCluster prints the tree whenever it changes.
func (a *app) watchCluster(ctx context.Context, c client.Client, name string) error {
	last := ""
	err := poll(ctx, func() (bool, error) {
		objects, err := a.objectsOf(ctx, c, name)
		if apierrors.IsNotFound(err) {
			fmt.Fprintf(a.out, "\ncluster %s is gone\n", name)
			return true, nil
		}
		if err != nil {
			return false, err
		}
		var text strings.Builder
		writeTree(&text, treeOf(objects))
		if text.String() != last {
			last = text.String()
			fmt.Fprintf(a.out, "\n%s\n%s", time.Now().Format(time.TimeOnly), last)
		}
		return false, nil
	})
	if ctx.Err() != nil {
		return nil // the user had enough
	}
	return err
}

// objectsOf reads the objects of a cluster.
func (a *app) objectsOf(ctx context.Context, c client.Client, name string) (clusterObjects, error) {
	o := clusterObjects{Cluster: &clusterv1.Cluster{}, InfraMachines: map[string]*infrav1.CapstanMachine{}, Hosts: map[string]*infrav1.CapstanHost{}}
	if err := c.Get(ctx, client.ObjectKey{Namespace: a.namespace, Name: name}, o.Cluster); err != nil {
		return o, err
	}
	ofCluster := []client.ListOption{client.InNamespace(a.namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: name}}
	var infra infrav1.CapstanClusterList
	var controlPlanes controlplanev1.KubeadmControlPlaneList
	var deployments clusterv1.MachineDeploymentList
	var machines clusterv1.MachineList
	var infraMachines infrav1.CapstanMachineList
	for _, list := range []client.ObjectList{&infra, &controlPlanes, &deployments, &machines, &infraMachines} {
		if err := c.List(ctx, list, ofCluster...); err != nil {
			return o, fmt.Errorf("reading the objects of cluster %s: %w", name, err)
		}
	}
	var hosts infrav1.CapstanHostList
	if err := c.List(ctx, &hosts, client.InNamespace(a.namespace)); err != nil {
		return o, fmt.Errorf("listing hosts: %w", err)
	}
	if len(infra.Items) > 0 {
		o.Infra = &infra.Items[0]
	}
	if len(controlPlanes.Items) > 0 {
		o.ControlPlane = &controlPlanes.Items[0]
	}
	o.Deployments, o.Machines = deployments.Items, machines.Items
	sort.Slice(o.Machines, func(i, j int) bool { return o.Machines[i].Name < o.Machines[j].Name })
	for i := range infraMachines.Items {
		o.InfraMachines[infraMachines.Items[i].Name] = &infraMachines.Items[i]
	}
	for i := range hosts.Items {
		if claim := hosts.Items[i].Spec.Claim; claim != nil && claim.Cluster == name {
			o.Hosts[claim.Machine] = &hosts.Items[i]
		}
	}
	return o, nil
}
