package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/templates"
	"github.com/capstan-dev/capstan/topology"
)

func (a *app) clusterCreateCommand() *cobra.Command {
	r := topology.Request{}
	var dryRun, hollow bool
	var format string
	var wait waiting
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a cluster and wait until all its Nodes are Ready",
		Example: `  capstan cluster create demo
  capstan cluster create ha --control-plane 3 --workers 2
  capstan cluster create rack --control-plane-host rack1-01
  capstan cluster create demo --dry-run -o yaml | capstan kubectl apply -f -`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			r.Name, r.Namespace = args[0], a.namespace
			if in, name, found := strings.Cut(r.Class, "/"); found {
				r.ClassNamespace, r.Class = in, name
			}
			if hollow {
				r.Pods = topology.PodsHollow
			}
			if r.Version, err = a.versionOrNewest(r.Version); err != nil {
				return err
			}
			if err := r.Validate(); err != nil {
				return err
			}
			if r.ControlPlaneHost != "" && r.Class == templates.LocalClass {
				r.Class = templates.OwnedClass
			}
			if r.ControlPlaneHost == "" { // owned hosts bring their own programs
				if _, err := a.bin.Kube(r.Version); err != nil {
					return err
				}
			}
			if dryRun && r.ControlPlaneHost != "" {
				return hint("leave --dry-run out", "a host's address is known only when the cluster is created")
			}
			if dryRun {
				if r.Class == templates.LocalClass && r.ClassNamespace == "" {
					r.ClassNamespace = topology.SharedNamespace // don't contact a plane
				}
				return a.print(format, r.Cluster(), func() error { return a.print("yaml", r.Cluster(), nil) })
			}
			if r.ControlPlaneHost != "" {
				if err := a.warnOfBundles(r.Version); err != nil {
					return err
				}
			}
			return a.createCluster(cmd.Context(), r, wait)
		},
	}
	cmd.Flags().Int32Var(&r.ControlPlane, "control-plane", 1, "number of control plane machines: 1, 3 or 5")
	cmd.Flags().Int32Var(&r.Workers, "workers", 2, "number of workers")
	cmd.Flags().StringVar(&r.Version, "kubernetes-version", "", "Kubernetes version (default: the newest bundle)")
	cmd.Flags().StringVar(&r.Class, "class", templates.LocalClass,
		"ClusterClass in the namespace, else in namespace default; or NAMESPACE/NAME")
	cmd.Flags().StringVar(&r.ControlPlaneHost, "control-plane-host", "",
		"owned `host` for the control plane, whose address becomes the endpoint; selects class capstan-owned")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print the Cluster and create nothing")
	cmd.Flags().BoolVar(&hollow, "hollow", false,
		"pods are reported as running, but have no processes: for hundreds of Nodes on a laptop")
	wait.add(cmd, "wait until all Nodes are Ready", 10*time.Minute)
	outputFlag(cmd, &format)
	_ = cmd.RegisterFlagCompletionFunc("kubernetes-version", a.completeVersion)
	return cmd
}

func (a *app) createCluster(ctx context.Context, r topology.Request, wait waiting) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	if err := topology.Create(ctx, c, r); err != nil {
		return err
	}
	if !wait.wait {
		a.next("capstan cluster describe "+r.Name+" --watch", "capstan cluster delete "+r.Name)
		return nil
	}
	if err := a.waitForCluster(ctx, c, r.Name, wait.timeout); err != nil {
		return err
	}
	a.next("capstan kubectl --cluster "+r.Name+" get nodes", "capstan cluster describe "+r.Name,
		"capstan cluster scale "+r.Name+" --workers 3", "capstan cluster delete "+r.Name)
	return nil
}
