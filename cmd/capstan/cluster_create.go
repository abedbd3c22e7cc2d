package main

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/templates"
)

// maxClusterName leaves room for what Cluster API appends to make the names of machines, which have 63 characters at most.
const maxClusterName = 40

// clusterRequest is what the user asked for.
type clusterRequest struct {
	name         string
	namespace    string
	class        string
	version      string
	controlPlane int32
	workers      int32
}

// validate finds what no server is needed to find.
func (r clusterRequest) validate() error {
	if errs := validation.IsDNS1035Label(r.name); len(errs) > 0 {
		return hint("use lower-case letters, digits and dashes, starting with a letter, for example: demo-1", "the name %q does not work: %s", r.name, errs[0])
	}
	if len(r.name) > maxClusterName {
		return hint("choose a shorter name", "the name %q has %d characters; at most %d work, because names of machines are made from it", r.name, len(r.name), maxClusterName)
	}
	if r.controlPlane < 1 {
		return hint("use 1, or 3 for high availability", "--control-plane %d: a cluster needs a control plane", r.controlPlane)
	}
	if r.controlPlane%2 == 0 {
		return hint(fmt.Sprintf("use %d or %d", r.controlPlane-1, r.controlPlane+1), "--control-plane %d: stacked etcd needs an odd number of members", r.controlPlane)
	}
	if r.workers < 0 {
		return hint("use 0 or more", "--workers %d is negative", r.workers)
	}
	return nil
}

// cluster is the object that is applied.
func (r clusterRequest) cluster() *clusterv1.Cluster {
	return &clusterv1.Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: r.name},
		Spec: clusterv1.ClusterSpec{
			ClusterNetwork: clusterv1.ClusterNetwork{
				Pods:     clusterv1.NetworkRanges{CIDRBlocks: []string{"10.244.0.0/16"}},
				Services: clusterv1.NetworkRanges{CIDRBlocks: []string{"10.96.0.0/16"}},
			},
			Topology: clusterv1.Topology{
				ClassRef:     clusterv1.ClusterClassRef{Name: r.class},
				Version:      r.version,
				ControlPlane: clusterv1.ControlPlaneTopology{Replicas: ptr.To(r.controlPlane)},
				Workers: clusterv1.WorkersTopology{MachineDeployments: []clusterv1.MachineDeploymentTopology{{
					Class: "default-worker", Name: "md-0", Replicas: ptr.To(r.workers),
				}}},
			},
		},
	}
}

func (a *app) clusterCreateCommand() *cobra.Command {
	r := clusterRequest{}
	var dryRun bool
	var format string
	var timeout time.Duration
	var wait bool
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a cluster and wait until all its Nodes are Ready",
		Example: `  capstan cluster create demo
  capstan cluster create ha --control-plane 3 --workers 2
  capstan cluster create demo --dry-run -o yaml | capstan kubectl apply -f -`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.name, r.namespace = args[0], a.namespace
			if r.version == "" {
				bundles := a.bin.Bundles()
				if len(bundles) == 0 {
					return hint("run: make build", "no Kubernetes bundle is built in %s/bundles", a.bin)
				}
				r.version = bundles[0]
			}
			if err := r.validate(); err != nil {
				return err
			}
			if _, err := a.bin.Kube(r.version); err != nil {
				return err
			}
			if dryRun {
				return a.print(format, r.cluster(), func() error { return a.print("yaml", r.cluster(), nil) })
			}
			return a.createCluster(cmd.Context(), r, wait, timeout)
		},
	}
	cmd.Flags().Int32Var(&r.controlPlane, "control-plane", 1, "number of control plane machines: 1, 3 or 5")
	cmd.Flags().Int32Var(&r.workers, "workers", 2, "number of workers")
	cmd.Flags().StringVar(&r.version, "kubernetes-version", "", "Kubernetes version (default: the newest bundle)")
	cmd.Flags().StringVar(&r.class, "class", templates.LocalClass, "ClusterClass")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print the Cluster and create nothing")
	cmd.Flags().BoolVar(&wait, "wait", true, "wait until all Nodes are Ready")
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "how long to wait")
	outputFlag(cmd, &format)
	_ = cmd.RegisterFlagCompletionFunc("kubernetes-version", a.completeVersion)
	return cmd
}

func (a *app) createCluster(ctx context.Context, r clusterRequest, wait bool, timeout time.Duration) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	if err := a.checkCreate(ctx, c, r); err != nil {
		return err
	}
	if err := c.Create(ctx, r.cluster()); err != nil {
		if apierrors.IsAlreadyExists(err) {
			return hint("choose another name, or: capstan cluster describe "+r.name, "there is a cluster %q already", r.name)
		}
		return fmt.Errorf("creating cluster %s: %w", r.name, err)
	}
	if !wait {
		a.next("capstan cluster describe "+r.name+" --watch", "capstan cluster delete "+r.name)
		return nil
	}
	if err := a.waitForCluster(ctx, c, r.name, timeout); err != nil {
		return err
	}
	a.next("capstan kubectl --cluster "+r.name+" get nodes", "capstan cluster describe "+r.name, "capstan cluster scale "+r.name+" --workers 3", "capstan cluster delete "+r.name)
	return nil
}

// checkCreate finds what would make the cluster wait for ever: an unknown class, more machines than the inventory has hosts.
func (a *app) checkCreate(ctx context.Context, c client.Client, r clusterRequest) error {
	classes := &clusterv1.ClusterClassList{}
	if err := c.List(ctx, classes, client.InNamespace(r.namespace)); err != nil {
		return hint("run: capstan status", "reaching the management plane: %w", err)
	}
	names := make([]string, 0, len(classes.Items))
	found := false
	for _, class := range classes.Items {
		names = append(names, class.Name)
		found = found || class.Name == r.class
	}
	if !found {
		sort.Strings(names)
		return hint("classes that exist: "+strings.Join(names, ", "), "there is no ClusterClass %q in namespace %s", r.class, r.namespace)
	}
	hosts := &infrav1.CapstanHostList{}
	if err := c.List(ctx, hosts, client.InNamespace(r.namespace)); err != nil {
		return fmt.Errorf("listing hosts: %w", err)
	}
	if need, have := int(r.controlPlane+r.workers), len(hosts.Items); need > have {
		return hint("make the cluster smaller, or get more hosts: capstan up --hosts "+fmt.Sprint(need), "the cluster needs %d hosts and the inventory of namespace %s has %d", need, r.namespace, have)
	}
	return nil
}
