package main

import (
	"context"
	"errors"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/dock"
)

// planeStatus is what "status" prints; its JSON form is stable.
type planeStatus struct {
	Home       string   `json:"home"`
	Dock       string   `json:"dock"`  // Running or Stopped
	Plane      string   `json:"plane"` // Ready, Starting or Stopped
	Rootless   bool     `json:"rootless"`
	Server     string   `json:"server,omitempty"`
	Kubeconfig string   `json:"kubeconfig,omitempty"`
	Versions   []string `json:"kubernetesVersions"`
	HostsOn    int      `json:"hostsOn"`
	Restarts   int      `json:"planeRestarts"`
	Error      string   `json:"error,omitempty"`
}

// status asks the dock, and looks whether the plane says it is ready.
func (a *app) status(ctx context.Context) (planeStatus, error) {
	s := planeStatus{Home: string(a.home), Dock: "Stopped", Plane: "Stopped", Versions: a.bin.Bundles()}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	client := a.dock()
	defer client.Close()
	d, err := client.Status(ctx)
	if errors.Is(err, dock.ErrNotRunning) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	s.Dock, s.Rootless = "Running", d.Rootless
	for _, h := range d.Hosts {
		if h.State == dock.HostRunning {
			s.HostsOn++
		}
	}
	for _, u := range d.Units {
		if u.Name != planeUnit {
			continue
		}
		s.Restarts = u.Restarts
		if u.Running {
			s.Plane = "Starting"
			if file, err := os.Stat(a.home.Ready()); err == nil && isOf(file.ModTime(), u.Since) {
				s.Plane = "Ready"
			}
		}
		if !u.Running && u.LastExit != "" {
			s.Error = "the plane " + u.LastExit + "; see " + dock.UnitLog(string(a.home), planeUnit)
		}
	}
	for _, r := range d.Relays {
		if r.Name == planeUnit {
			s.Server = "https://" + r.Local
			if r.Error != "" {
				s.Error = r.Error
			}
		}
	}
	if s.Plane == "Ready" {
		s.Kubeconfig = a.home.Kubeconfig()
	}
	return s, nil
}

// isOf tells whether a plane that was started at a moment has written a file: one that was killed leaves its own until the next one begins. Clocks of file systems are a little behind. Pure.
func isOf(written, started time.Time) bool { return written.After(started.Add(-20 * time.Millisecond)) }

func (a *app) statusCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "status", Short: "Show whether the management plane runs, and where", Args: cobra.NoArgs,
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
					[][]string{{s.Plane, s.Dock, mode, strconv.Itoa(s.HostsOn), dash(s.Server), s.Home}})
			})
			if err == nil && format == "table" {
				if s.Error != "" {
					return errors.New(s.Error)
				}
				if s.Plane == "Ready" {
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
