package main

import (
	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/clusterctl"
)

func (a *app) clusterctlDeleteCommand(t *target) *cobra.Command {
	var r clusterctl.Removal
	cmd := &cobra.Command{
		Use: "delete", Short: "Remove providers; with --include-crd also their definitions and all objects of these kinds",
	}
	providers := addProviderFlags(cmd)
	f := cmd.Flags()
	f.BoolVar(&r.All, "all", false, "remove all providers")
	f.BoolVar(&r.Namespaces, "include-namespace", false, "also remove the providers' namespaces")
	f.BoolVar(&r.Definitions, "include-crd", false,
		"also remove the providers' definitions, and with them all objects of these kinds")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if r.Request, err = providers(); err != nil {
			return err
		}
		if err := r.Check(); err != nil {
			return err
		}
		c, err := a.clusterctl(cmd, t, false)
		if err != nil {
			return err
		}
		if err := c.Remove(cmd.Context(), r); err != nil {
			return err
		}
		return a.printProvidersNow(cmd, t)
	}
	return cmd
}
