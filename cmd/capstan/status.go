package main

import (
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/local"
)

func (a *app) statusCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "status", Short: "Show whether the management plane runs, and where",
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.status(cmd.Context())
			if err != nil {
				return err
			}
			err = a.print(format, s, func() error {
				mode := "root"
				if s.Rootless {
					mode = "rootless"
				}
				return a.table([]string{"PLANE", "DOCK", "MODE", "HOSTS ON", "SERVER", "HOME"},
					[][]string{{string(s.Plane), string(s.Dock), mode, strconv.Itoa(s.HostsOn), dash(s.Server), s.Home}})
			})
			if err == nil && format == "table" {
				if s.Error != "" {
					return errors.New(s.Error)
				}
				if s.Plane == local.PhaseReady {
					a.next("capstan cluster list", "capstan host list", "export KUBECONFIG="+s.Kubeconfig)
				} else {
					a.next("capstan up")
				}
			}
			return err
		},
	}
	outputFlag(cmd, &format)
	return cmd
}
