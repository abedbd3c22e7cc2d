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
	var featureGates, listen, metrics, source, mirror, bandwidth string
	cmd := &cobra.Command{
		Use: "up", Short: "Start the management plane on this machine, in the background",
		Long: `Starts the management plane on this machine, in the background: etcd, an API server and all of Cluster API, in
namespaces of their own. Nothing on the machine's own network changes. Running it again is harmless, and existing
clusters come back.

Only this machine reaches the plane, unless --listen names one of its addresses: then other computers reach it, too, and
can become hosts. At that address, callers without a credential can only read the version and fetch the agent.

Root in a local host is not root on the machine: each host has a user namespace of its own. Hosts share the machine's
kernel, processor and memory, and see its programs read-only.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Hosts < 0 || o.Hosts > local.MaxHosts {
				return hint(fmt.Sprintf("choose 1 to %d, or leave it out", local.MaxHosts), "--hosts can't be %d",
					o.Hosts)
			}
			if cmd.Flags().Changed("feature-gates") {
				var err error
				if o.FeatureGates, err = gates.Parse(featureGates); err != nil {
					return err
				}
			}
			if cmd.Flags().Changed("listen") {
				o.Listen = &listen
			}
			if cmd.Flags().Changed("metrics") {
				o.Metrics = &metrics
			}
			for name, option := range map[string]struct {
				set  **string
				text *string
			}{
				"bundle-source": {&o.Bundles.Source, &source}, "bundle-mirror": {&o.Bundles.Mirror, &mirror},
				"bundle-bandwidth": {&o.Bundles.Bandwidth, &bandwidth},
			} {
				if cmd.Flags().Changed(name) {
					*option.set = option.text
				}
			}
			if !cmd.Flags().Changed("tls-san") {
				o.Names = nil
			}
			o.Place, o.Progress = a.place(), a.progress()
			plane, err := local.Up(cmd.Context(), o)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.err, "\nThe management plane is ready: %d hosts, Kubernetes %s.\n", plane.Hosts,
				plane.KubernetesVersion)
			next := []string{"capstan cluster create demo", "capstan host list", "export KUBECONFIG=" + plane.Kubeconfig,
				"capstan down"}
			if plane.Listen != "" {
				fmt.Fprintf(a.err, "Other computers reach it at %s, and hosts enroll at %s.\n", plane.Listen, plane.Enrolment)
				next = append([]string{"capstan host token create   # a line that makes another computer a host"}, next...)
			}
			if plane.Metrics != "" {
				fmt.Fprintf(a.err, "Metrics are served at http://%s/metrics.\n", plane.Metrics)
			}
			a.next(next...)
			return nil
		},
	}
	cmd.Flags().IntVar(&o.Hosts, "hosts", 0,
		"number of local hosts in the inventory (default: as many as the machine can hold)")
	cmd.Flags().StringVar(&listen, "listen", "",
		"address of this machine, as ADDRESS[:PORT], at which other computers reach the plane; hosts enroll at the next "+
			"port\n(default: that of the previous start, at first none; '' or a loopback address removes it)")
	cmd.Flags().StringSliceVar(&o.Names, "tls-san", nil,
		"additional name or address of the plane in its serving certificate (default: those of the previous start)")
	cmd.Flags().StringVar(&source, "bundle-source", "",
		"source of a node's programs for owned hosts without spec.bundles: Plane, Directory, Packages or Mirror\n(default: "+
			"that of the previous start; if it had none, a host's own programs, else the plane's bundle)")
	cmd.Flags().StringVar(&mirror, "bundle-mirror", "",
		"http(s) URL of the directory with the bundles, for --bundle-source Mirror")
	cmd.Flags().StringVar(&bandwidth, "bundle-bandwidth", "",
		"maximum rate at which the plane sends bundles to all hosts together, in bytes per second, such as 20M\n(default: "+
			"that of the previous start, at first no limit; 0 removes it)")
	cmd.Flags().StringVar(&metrics, "metrics", "",
		"address of this machine, as ADDRESS:PORT, where anyone who reaches it can read the plane's metrics\n(default: "+
			"that of the previous start, at first none; '' removes it)")
	cmd.Flags().BoolVar(&o.RotateKeys, "rotate-keys", false,
		"encrypt the plane's Secrets with a new key; restarts a running plane")
	cmd.Flags().StringVar(&featureGates, "feature-gates", "",
		"feature gates of Cluster API that differ from Capstan's, as NAME=true,NAME=false (default: those of the previous "+
			"start)")
	cmd.Flags().DurationVar(&o.Timeout, "timeout", 3*time.Minute, "how long to wait")
	return cmd
}
