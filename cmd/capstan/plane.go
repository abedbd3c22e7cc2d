package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/clusterctl"
	"github.com/capstan-dev/capstan/internal/gates"
	"github.com/capstan-dev/capstan/local"
	"github.com/capstan-dev/capstan/local/inside"
	"github.com/capstan-dev/capstan/provider/bundlepolicy"
)

// planeCommand is the management plane's own process. The dock runs it; people use "up".
func (a *app) planeCommand() *cobra.Command {
	o := inside.Options{Version: clusterctl.Version(version)}
	var featureGates, listen, source, mirror string
	var names []string
	cmd := &cobra.Command{
		Use: "plane", Short: "Run the management plane in this process (started by up)", Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if o.Gates, err = gates.Parse(featureGates); err != nil {
				return err
			}
			if o.Listen, err = local.ParseListen(listen, names); err != nil {
				return err
			}
			if o.Bundles.Policy, err = bundlepolicy.Parse(source, mirror); err != nil {
				return err
			}
			o.Place, o.Audit, o.Contract = a.place(), os.Getenv(local.AuditVariable), os.Getenv(local.ContractVariable)
			return inside.Run(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&o.Server, "server", "", "URL by which the user reaches the API server")
	cmd.Flags().IntVar(&o.Hosts, "hosts", 0, "number of local hosts in the inventory")
	cmd.Flags().StringVar(&listen, "listen", "", "address at which other computers reach the plane, as ADDRESS:PORT")
	cmd.Flags().StringSliceVar(&names, "tls-san", nil, "additional name in the serving certificate")
	cmd.Flags().StringVar(&source, "bundle-source", "", "where owned hosts get the programs of a node from")
	cmd.Flags().StringVar(&mirror, "bundle-mirror", "", "URL of the directory with the bundles, for source Mirror")
	cmd.Flags().Int64Var(&o.Bundles.Bandwidth, "bundle-bandwidth", 0, "limit of what hosts are sent, in bytes per second")
	cmd.Flags().StringVar(&featureGates, "feature-gates", "", "feature gates of Cluster API, as NAME=true,NAME=false")
	return cmd
}
