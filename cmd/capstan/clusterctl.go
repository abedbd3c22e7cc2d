package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"
	clusterctllog "sigs.k8s.io/cluster-api/cmd/clusterctl/log"

	"github.com/capstan-dev/capstan/clusterctl"
	"github.com/capstan-dev/capstan/local"
)

// target holds the flags that select the management cluster of a clusterctl command.
type target struct {
	kubeconfig, context, config string
	verbosity                   int
	// binaries are the programs of providers that run as processes of the plane, by provider name.
	binaries map[string]string
}

func (a *app) clusterctlCommand() *cobra.Command {
	t := &target{}
	cmd := &cobra.Command{
		Use:   "clusterctl",
		Short: "clusterctl, built in: providers, cluster templates, and moving clusters",
		Long: `clusterctl, built in, with its commands and flags.

By default it works on the management plane, whose own providers need no network. With --kubeconfig it works on any
other management cluster, in the namespace of the context unless -n names another. The plane runs no containers, so it
refuses providers that need Pods, unless --provider-binary gives the provider's program: the plane then runs that as a
process.`,
		Example: `  capstan clusterctl generate cluster blue --flavor topology --kubernetes-version v1.36.3
  capstan clusterctl upgrade plan
  capstan clusterctl move --to-kubeconfig other.kubeconfig`,
	}
	f := cmd.PersistentFlags()
	f.StringVar(&t.kubeconfig, "kubeconfig", "",
		"kubeconfig of the management cluster (default: that of the management plane)")
	f.StringVar(&t.context, "kubeconfig-context", "", "context of the kubeconfig (default: the current one)")
	f.StringVar(&t.config, "config", "",
		"clusterctl's configuration file (default: ~/.config/cluster-api/clusterctl.yaml, if it exists)")
	f.IntVarP(&t.verbosity, "verbosity", "v", 0, "verbosity of clusterctl's log")
	describe := &cobra.Command{Use: "describe", Short: "Show a cluster"}
	describe.AddCommand(a.clusterctlDescribeCommand(t))
	cmd.AddCommand(a.clusterctlInitCommand(t), a.clusterctlGenerateCommand(t), describe, a.clusterctlGetCommand(t),
		a.clusterctlMoveCommand(t), a.clusterctlUpgradeCommand(t), a.clusterctlDeleteCommand(t),
		a.clusterctlAlphaCommand(t), a.clusterctlConfigCommand(t), a.clusterctlConvertCommand(t))
	return cmd
}

// clusterctl opens the library. If offline is set, it works without a management cluster.
func (a *app) clusterctl(cmd *cobra.Command, t *target, offline bool) (*clusterctl.Client, error) {
	ctx := cmd.Context()
	found := clusterctl.Target{
		Options: clusterctl.Options{
			Kubeconfig: t.kubeconfig, Context: t.context, Config: t.config, Version: version, Binaries: t.binaries,
			Allow: func(ctx context.Context, binaries map[string]string) (done func(), err error) {
				return local.AllowBinaries(ctx, string(a.home), binaries, a.progress())
			},
		},
		Home: string(a.home), Plane: a.home.Kubeconfig(), Stopped: a.stopped,
	}
	kubeconfig, err := found.Find(ctx, offline)
	if err != nil {
		return nil, err
	}
	if err := a.settleNamespace(cmd, t, kubeconfig); err != nil {
		return nil, err
	}
	clusterctllog.SetLogger(clusterctllog.NewLogger(clusterctllog.WithThreshold(&t.verbosity)))
	return found.Open(ctx, kubeconfig)
}

// onCluster returns a RunE function that opens the library and calls the function do. If offline is set, it works
// without a management cluster.
func (a *app) onCluster(
	t *target, offline bool, do func(ctx context.Context, c *clusterctl.Client, args []string) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.clusterctl(cmd, t, offline)
		if err != nil {
			return err
		}
		return do(cmd.Context(), c, args)
	}
}

// stopped reports whether the management plane is known to be stopped.
func (a *app) stopped(ctx context.Context) bool {
	s, err := a.status(ctx)
	return err == nil && s.Plane == "Stopped"
}

// settleNamespace chooses the namespace if none was named. For another management cluster it takes the one in the
// kubeconfig's context, like clusterctl.
func (a *app) settleNamespace(cmd *cobra.Command, t *target, kubeconfig string) (err error) {
	if a.namespace != "" && (t.kubeconfig == "" || cmd.Flags().Changed("namespace")) {
		return nil
	}
	a.namespace = defaultNamespace
	if kubeconfig != "" {
		a.namespace, err = clusterctl.Namespace(upstream.Kubeconfig{Path: kubeconfig, Context: t.context})
	}
	return err
}

func (a *app) clusterctlAlphaCommand(t *target) *cobra.Command {
	alpha := &cobra.Command{Use: "alpha", Short: "Commands that may still change in clusterctl"}
	rollout := &cobra.Command{Use: "rollout", Short: "Roll out machines anew"}
	alpha.AddCommand(rollout)
	for _, verb := range clusterctl.Rollouts {
		rollout.AddCommand(&cobra.Command{
			Use: verb + " KIND/NAME...", Short: verb + " the rollout of MachineDeployments and KubeadmControlPlanes",
			Example: "  capstan clusterctl alpha rollout " + verb + " machinedeployment/blue-md-0",
			RunE: a.onCluster(t, false, func(ctx context.Context, c *clusterctl.Client, args []string) error {
				return c.Rollout(ctx, verb, a.namespace, args)
			}),
		})
	}
	return alpha
}

func (a *app) clusterctlGetCommand(t *target) *cobra.Command {
	get := &cobra.Command{Use: "get", Short: "Get information about a cluster"}
	get.AddCommand(&cobra.Command{
		Use: "kubeconfig NAME", Short: "Print the kubeconfig of a cluster",
		ValidArgsFunction: a.completeCluster,
		Example:           "  capstan clusterctl get kubeconfig demo > demo.kubeconfig",
		RunE: func(cmd *cobra.Command, args []string) error {
			if t.kubeconfig == "" { // through a relay: the address in the Secret works only in the dock
				return a.clusterKubeconfigCommand().RunE(cmd, args)
			}
			c, err := a.clusterctl(cmd, t, false)
			if err != nil {
				return err
			}
			text, err := c.GetKubeconfig(cmd.Context(), upstream.GetKubeconfigOptions{
				Kubeconfig: c.Kubeconfig, Namespace: a.namespace, WorkloadClusterName: args[0],
			})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.out, text)
			return err
		},
	})
	return get
}
