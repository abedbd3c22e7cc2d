package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"
	clusterctllog "sigs.k8s.io/cluster-api/cmd/clusterctl/log"

	"github.com/capstan-dev/capstan/clusterctl"
)

// target is the management cluster that a clusterctl command works with.
type target struct {
	kubeconfig, context, config string
	verbosity                   int
	// binaries are those of providers that run as processes of the plane, by their names.
	binaries map[string]string
}

func (a *app) clusterctlCommand() *cobra.Command {
	t := &target{}
	cmd := &cobra.Command{
		Use:   "clusterctl",
		Short: "clusterctl, built in: providers, cluster templates, and moving clusters",
		Long: `clusterctl, built in, with its commands and flags.

It works on the management plane, and needs no network for what is a part of that; with --kubeconfig it works on any other management cluster, in the namespace of the context unless -n names another.
Providers that need Pods are refused on the plane, which runs no containers, unless their program is given (--provider-binary): then it is a process of the plane.`,
		Example: `  capstan clusterctl generate cluster blue --flavor topology --kubernetes-version v1.36.3
  capstan clusterctl upgrade plan
  capstan clusterctl move --to-kubeconfig other.kubeconfig`,
	}
	cmd.PersistentFlags().StringVar(&t.kubeconfig, "kubeconfig", "", "kubeconfig of the management cluster (default: that of the management plane)")
	cmd.PersistentFlags().StringVar(&t.context, "kubeconfig-context", "", "context of the kubeconfig (default: the current one)")
	cmd.PersistentFlags().StringVar(&t.config, "config", "", "clusterctl's configuration file (default: ~/.config/cluster-api/clusterctl.yaml, if it exists)")
	cmd.PersistentFlags().IntVarP(&t.verbosity, "verbosity", "v", 0, "how much clusterctl tells about what it does")
	describe := &cobra.Command{Use: "describe", Short: "Show a cluster"}
	describe.AddCommand(a.clusterctlDescribeCommand(t))
	cmd.AddCommand(a.clusterctlInitCommand(t), a.clusterctlGenerateCommand(t), describe, a.clusterctlGetCommand(t), a.clusterctlMoveCommand(t),
		a.clusterctlUpgradeCommand(t), a.clusterctlDeleteCommand(t), a.clusterctlAlphaCommand(t), a.clusterctlConfigCommand(t), a.clusterctlConvertCommand(t))
	return cmd
}

// clusterctl opens the library; without a management cluster only if that may be.
func (a *app) clusterctl(cmd *cobra.Command, t *target, offline bool) (*clusterctl.Client, error) {
	kubeconfig := t.kubeconfig
	if kubeconfig == "" {
		kubeconfig = a.home.Kubeconfig()
	}
	if _, err := os.Stat(kubeconfig); err != nil && (t.kubeconfig != "" || !offline) {
		if t.kubeconfig == "" {
			return nil, hint("run: capstan up, or name another management cluster with --kubeconfig", "no management plane in %s", a.home)
		}
		return nil, fmt.Errorf("looking for the kubeconfig: %w", err)
	}
	if offline && t.kubeconfig == "" && a.stopped(cmd.Context()) {
		kubeconfig = "" // the file outlives the plane
	}
	if err := a.settleNamespace(cmd, t, kubeconfig); err != nil {
		return nil, err
	}
	clusterctllog.SetLogger(clusterctllog.NewLogger(clusterctllog.WithThreshold(&t.verbosity)))
	c, err := clusterctl.Open(cmd.Context(), clusterctl.Options{Kubeconfig: kubeconfig, Context: t.context, Config: t.config, Version: version, Binaries: t.binaries})
	if err != nil && t.kubeconfig == "" {
		return nil, hint("run: capstan status", "%w", err)
	}
	return c, err
}

// stopped reports whether the management plane is known not to run.
func (a *app) stopped(ctx context.Context) bool {
	s, err := a.status(ctx)
	return err == nil && s.Plane == "Stopped"
}

// settleNamespace chooses the namespace that was not named: on another management cluster that of the kubeconfig's context, as clusterctl does.
func (a *app) settleNamespace(cmd *cobra.Command, t *target, kubeconfig string) (err error) {
	if a.namespace != "" && (t.kubeconfig == "" || isSet(cmd, "namespace")) {
		return nil
	}
	a.namespace = defaultNamespace
	if kubeconfig != "" {
		a.namespace, err = clusterctl.Namespace(upstream.Kubeconfig{Path: kubeconfig, Context: t.context})
	}
	return err
}

// providerFlag is a flag of clusterctl that names providers.
type providerFlag struct {
	name, short string
	kind        clusterctlv1.ProviderType
}

var providerFlags = []providerFlag{
	{"core", "", clusterctlv1.CoreProviderType},
	{"bootstrap", "b", clusterctlv1.BootstrapProviderType},
	{"control-plane", "c", clusterctlv1.ControlPlaneProviderType},
	{"infrastructure", "i", clusterctlv1.InfrastructureProviderType},
	{"ipam", "", clusterctlv1.IPAMProviderType},
	{"runtime-extension", "", clusterctlv1.RuntimeExtensionProviderType},
	{"addon", "", clusterctlv1.AddonProviderType},
}

// addProviderFlags adds the flags that name providers. The function returns what was given.
func addProviderFlags(cmd *cobra.Command) func() (clusterctl.Request, error) {
	for _, f := range providerFlags {
		cmd.Flags().StringSliceP(f.name, f.short, nil, string(f.kind)+"s, NAME or NAME:VERSION")
	}
	return func() (clusterctl.Request, error) {
		request := clusterctl.Request{}
		for _, f := range providerFlags {
			names, err := cmd.Flags().GetStringSlice(f.name)
			if err != nil {
				return nil, err
			}
			if len(names) > 0 {
				request[f.kind] = names
			}
		}
		if n := len(request[clusterctlv1.CoreProviderType]); n > 1 {
			return nil, fmt.Errorf("--core names %d providers: a management cluster has one", n)
		}
		return request, nil
	}
}

// core returns the core provider of a request; upstream's options have one.
func core(request clusterctl.Request) string {
	if names := request[clusterctlv1.CoreProviderType]; len(names) > 0 {
		return names[0]
	}
	return ""
}

// printProviders shows what is installed.
func (a *app) printProviders(c *clusterctl.Client) error {
	var rows [][]string
	for _, kind := range clusterctl.Types {
		for _, p := range c.Installed {
			if p.Type != kind {
				continue
			}
			from := "clusterctl"
			if p.Embedded {
				from = "the plane"
			}
			rows = append(rows, []string{p.Label(), string(p.Type), p.Namespace, p.Version, from})
		}
	}
	return a.table([]string{"PROVIDER", "TYPE", "NAMESPACE", "VERSION", "PART OF"}, rows)
}

func (a *app) clusterctlAlphaCommand(t *target) *cobra.Command {
	alpha := &cobra.Command{Use: "alpha", Short: "What may still change in clusterctl"}
	rollout := &cobra.Command{Use: "rollout", Short: "Roll out machines anew"}
	alpha.AddCommand(rollout)
	for _, verb := range []string{"restart", "pause", "resume"} {
		rollout.AddCommand(&cobra.Command{
			Use: verb + " KIND/NAME...", Short: verb + " the rollout of MachineDeployments and KubeadmControlPlanes", Args: cobra.MinimumNArgs(1),
			Example: "  capstan clusterctl alpha rollout " + verb + " machinedeployment/blue-md-0",
			RunE: func(cmd *cobra.Command, args []string) error {
				c, err := a.clusterctl(cmd, t, false)
				if err != nil {
					return err
				}
				switch o := (upstream.RolloutRestartOptions{Kubeconfig: c.Kubeconfig, Resources: args, Namespace: a.namespace}); verb {
				case "restart":
					return c.RolloutRestart(cmd.Context(), o)
				case "pause":
					return c.RolloutPause(cmd.Context(), upstream.RolloutPauseOptions(o))
				default:
					return c.RolloutResume(cmd.Context(), upstream.RolloutResumeOptions(o))
				}
			},
		})
	}
	return alpha
}

func (a *app) clusterctlGetCommand(t *target) *cobra.Command {
	get := &cobra.Command{Use: "get", Short: "Get what belongs to a cluster"}
	get.AddCommand(&cobra.Command{
		Use: "kubeconfig NAME", Short: "Print a kubeconfig of a cluster", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeCluster,
		Example: "  capstan clusterctl get kubeconfig demo > demo.kubeconfig",
		RunE: func(cmd *cobra.Command, args []string) error {
			if t.kubeconfig == "" { // by a relay: what is in the Secret is reached in the dock only
				return a.clusterKubeconfigCommand().RunE(cmd, args)
			}
			c, err := a.clusterctl(cmd, t, false)
			if err != nil {
				return err
			}
			text, err := c.GetKubeconfig(cmd.Context(), upstream.GetKubeconfigOptions{Kubeconfig: c.Kubeconfig, Namespace: a.namespace, WorkloadClusterName: args[0]})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.out, text)
			return err
		},
	})
	return get
}

// isSet reports whether a flag was given.
func isSet(cmd *cobra.Command, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return cmd.Flags().Changed(name) })
}

// seconds is how long to wait: a number of seconds, as clusterctl takes it, or a duration such as 5m.
type seconds time.Duration

func (s *seconds) String() string { return time.Duration(*s).String() }
func (s *seconds) Type() string   { return "duration" }

func (s *seconds) Set(text string) error {
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		*s = seconds(time.Duration(n) * time.Second)
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return fmt.Errorf("%q is neither a number of seconds nor a duration such as 5m", text)
	}
	*s = seconds(d)
	return nil
}

// waitFlags adds clusterctl's flags that wait for providers.
func waitFlags(cmd *cobra.Command, wait *bool, timeout *seconds) {
	*timeout = seconds(5 * time.Minute)
	cmd.Flags().BoolVar(wait, "wait-providers", false, "wait until they work")
	cmd.Flags().Var(timeout, "wait-provider-timeout", "how long to wait for each, in seconds or as a duration")
}
