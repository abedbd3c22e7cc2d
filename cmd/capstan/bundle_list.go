package main

import (
	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/local"
)

func (a *app) bundleListCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the bundles that hosts get from the plane",
		Long: `Lists the bundles of the plane: a host that becomes a node of one of these versions gets its programs and
images from the plane.`,
		RunE: func(*cobra.Command, []string) error {
			s, err := local.NodeBundles(a.place(), false)
			if err != nil {
				return err
			}
			all, err := s.List()
			if err != nil {
				return err
			}
			return a.print(format, all, func() error { return a.bundleTable(all) })
		},
	}
	outputFlag(cmd, &format)
	return cmd
}
