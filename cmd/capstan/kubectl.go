package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/local"
)

func (a *app) kubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl [--cluster [NAMESPACE/]NAME] ARGS...",
		Short: "kubectl, built in: for the management plane, or with --cluster [NAMESPACE/]NAME for a cluster",
		Example: `  capstan kubectl get clusters,machines,capstanhosts
  capstan kubectl --cluster demo get nodes`,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			cluster, args, err := a.takeOwnFlags(args)
			if err != nil {
				return err
			}
			if err := cmd.Root().PersistentPreRunE(cmd, nil); err != nil {
				return err
			}
			newest, err := local.NewestBundle(string(a.bin))
			if err != nil {
				return err
			}
			kube, err := a.bin.Kube(newest)
			if err != nil {
				return err
			}
			kubeconfig := a.home.Kubeconfig()
			if namespace, name, given := strings.Cut(cluster, "/"); given {
				a.namespace, cluster = namespace, name
			}
			if cluster != "" {
				if kubeconfig, err = a.clusterKubeconfig(cmd.Context(), cluster); err != nil {
					return err
				}
			} else if _, err := local.Kubeconfig(string(a.home)); err != nil && wantsServer(args) {
				return err
			}
			// kubectl replaces this process, so that signals, terminal and exit code are its own, and killing it leaves
			// nothing behind.
			err = syscall.Exec(kube, append([]string{kube, "kubectl"}, args...),
				environment(os.Environ(), "KUBECONFIG", kubeconfig))
			return fmt.Errorf("starting %s: %w", kube, err)
		},
	}
}

// environment returns the environment with a variable set and without its earlier values, because the first value would
// count. Pure.
func environment(all []string, name, value string) []string {
	all = slices.DeleteFunc(slices.Clone(all), func(v string) bool { return strings.HasPrefix(v, name+"=") })
	return append(all, name+"="+value)
}

// takeOwnFlags takes --cluster and --home from the front of the arguments; the rest belongs to kubectl.
func (a *app) takeOwnFlags(args []string) (cluster string, rest []string, err error) {
	for len(args) > 0 {
		name, value, inline := strings.Cut(args[0], "=")
		var target *string
		switch name {
		case "--": // a common separator elsewhere, but kubectl itself would print its help
			return cluster, args[1:], nil
		case "--cluster":
			target = &cluster
		case "--home":
			target = &a.homeFlag
		default:
			return cluster, args, nil
		}
		args = args[1:]
		if !inline {
			if len(args) == 0 {
				return "", nil, hint("for example: capstan kubectl "+name+" NAME get nodes", "%s needs a value", name)
			}
			value, args = args[0], args[1:]
		}
		*target = value
	}
	return cluster, args, nil
}

// wantsServer returns false for kubectl's commands that need no server.
func wantsServer(args []string) bool {
	if len(args) == 0 {
		return false
	}
	switch args[0] {
	case "completion", "help", "kustomize", "options", "--help", "-h":
		return false
	}
	return true
}
