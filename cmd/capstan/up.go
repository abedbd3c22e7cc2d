package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/gates"
	"github.com/capstan-dev/capstan/local"
)

func (a *app) upCommand() *cobra.Command {
	o := local.UpOptions{}
	var featureGates string
	cmd := &cobra.Command{
		Use: "up", Short: "Start the management plane on this machine, in the background",
		Long: `Starts the management plane on this machine, in the background: etcd, an API server and all of Cluster API, in namespaces of their own.
Nothing on the machine's own network changes. Doing it again is harmless; what was there before comes back.

Root in a local host is not root of the machine: each host has a user namespace of its own. Hosts share the machine's
kernel, processor and memory, and see its programs read-only.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Hosts < 0 || o.Hosts > local.MaxHosts {
				return hint(fmt.Sprintf("choose between 1 and %d, or leave it out", local.MaxHosts), "--hosts %d does not work",
					o.Hosts)
			}
			if cmd.Flags().Changed("feature-gates") {
				var err error
				if o.FeatureGates, err = gates.Parse(featureGates); err != nil {
					return err
				}
			}
			o.Place, o.Progress = a.place(), a.progress()
			plane, err := local.Up(cmd.Context(), o)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.err, "\nThe management plane is ready: %d hosts, Kubernetes %s.\n", plane.Hosts,
				plane.KubernetesVersion)
			a.next("capstan cluster create demo", "capstan host list", "export KUBECONFIG="+plane.Kubeconfig, "capstan down")
			return nil
		},
	}
	cmd.Flags().IntVar(&o.Hosts, "hosts", 0, "number of local hosts in the inventory (default: what the machine can hold)")
	cmd.Flags().BoolVar(&o.RotateKeys, "rotate-keys", false,
		"encrypt the plane's Secrets with a new key; a plane that runs is started again")
	cmd.Flags().StringVar(&featureGates, "feature-gates", "",
		"feature gates of Cluster API that differ from Capstan's, as NAME=true,NAME=false (default: those of the last time)")
	cmd.Flags().DurationVar(&o.Timeout, "timeout", 3*time.Minute, "how long to wait")
	return cmd
}
