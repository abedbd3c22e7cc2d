package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
	kubeadmscheme "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/scheme"
	kubeadm "k8s.io/kubernetes/cmd/kubeadm/app/cmd"
	"k8s.io/kubernetes/cmd/kubeadm/app/constants"
	kubeadmerrors "k8s.io/kubernetes/cmd/kubeadm/app/util/errors"

	"github.com/capstan-dev/capstan/kube/metricsapi"
)

// runKubeadm runs upstream's kubeadm with two changes: a cluster has pod ranges even if its configuration sets none,
// and kubeadm installs the bundle's metrics API after its own add-ons.
func runKubeadm(_ []string, _, stderr io.Writer) int {
	var klogs flag.FlagSet
	klog.InitFlags(&klogs)
	for _, name := range []string{"v", "vmodule"} { // kubeadm has no other flags of klog
		f := klogs.Lookup(name)
		flag.CommandLine.Var(f.Value, f.Name, f.Usage)
	}
	pflag.CommandLine.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	pflag.CommandLine.AddGoFlagSet(flag.CommandLine)

	withPodSubnet(kubeadmscheme.Scheme)
	cmd := kubeadm.NewKubeadmCommand(os.Stdin, os.Stdout, os.Stderr)
	withMetricsAPI(cmd, stderr, func(ctx context.Context, step installStep) error {
		return installMetricsAPI(ctx, constants.GetAdminKubeConfigPath(), step)
	})
	kubeadmerrors.HandleError(cmd.Execute())
	return 0
}

// installStep is a change that a command makes to a cluster's metrics API, such as (*metricsapi.Installer).Install.
type installStep func(*metricsapi.Installer, context.Context) (bool, error)

// withMetricsAPI makes kubeadm's commands maintain the metrics API. The first control plane machine of a cluster
// installs it; later ones, and upgrades, replace it if it is of another release. A cluster works without it, too, so a
// failure is only a warning.
func withMetricsAPI(kubeadm *cobra.Command, stderr io.Writer, install func(context.Context, installStep) error) {
	for path, step := range map[[2]string]installStep{
		{"init"}:             (*metricsapi.Installer).Install,
		{"join"}:             (*metricsapi.Installer).Refresh,
		{"upgrade", "apply"}: (*metricsapi.Installer).Refresh,
	} {
		cmd := subcommand(kubeadm, path)
		if cmd == nil || cmd.RunE == nil {
			continue
		}
		run := cmd.RunE
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if err := run(cmd, args); err != nil {
				return err
			}
			if dry, _ := cmd.Flags().GetBool("dry-run"); dry {
				return nil
			}
			if err := install(context.Background(), step); err != nil {
				fmt.Fprintf(stderr, "Warning: kubectl top won't work, because the metrics API was not installed: %v\n"+
					"To install it: capstan-kube metrics-api manifest | kubectl apply --server-side -f -\n", err)
			}
			return nil
		}
	}
}

// subcommand returns the command at a path, or nil.
func subcommand(cmd *cobra.Command, path [2]string) *cobra.Command {
	for _, name := range path {
		if name == "" {
			return cmd
		}
		var next *cobra.Command
		for _, each := range cmd.Commands() {
			if each.Name() == name {
				next = each
			}
		}
		if cmd = next; cmd == nil {
			return nil
		}
	}
	return cmd
}

// installMetricsAPI executes a step with the configuration file of the cluster's administrator. It does nothing on
// machines without a control plane, which lack that file.
func installMetricsAPI(ctx context.Context, adminConfig string, step installStep) error {
	if _, err := os.Stat(adminConfig); os.IsNotExist(err) {
		return nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", adminConfig)
	if err != nil {
		return fmt.Errorf("reading the administrator's configuration: %w", err)
	}
	installer, err := metricsapi.NewInstaller(config, version.Get().GitVersion)
	if err != nil {
		return err
	}
	done, err := step(installer, ctx)
	if done {
		fmt.Println("[addons] Applied essential addon: metrics-api")
	}
	return err
}
