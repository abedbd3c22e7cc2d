package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/gates"
	"github.com/capstan-dev/capstan/local"
)

func (a *app) statusCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "status", Short: "Show whether the management plane runs, and its addresses",
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.status(cmd.Context())
			if err != nil {
				return err
			}
			shown := struct {
				local.PlaneStatus `json:",inline"`
				// Shares show how namespaces share the local hosts while the plane is ready.
				Shares []local.Share `json:"shares,omitempty"`
			}{PlaneStatus: s}
			if s.Plane == local.PhaseReady {
				c, err := a.client()
				if err != nil {
					return err
				}
				ctx, cancel := context.WithTimeout(cmd.Context(), sharesLimit)
				defer cancel()
				// A plane that is too busy to answer still has a status.
				if shown.Shares, err = local.Shares(ctx, c); err != nil {
					shown.Warnings = append(shown.Warnings, err.Error())
				}
			}
			err = a.print(format, shown, func() error {
				mode := "-"
				switch {
				case s.Rootless:
					mode = "rootless"
				case s.Dock == local.PhaseRunning:
					mode = "root"
				}
				if err := a.table([]string{"PLANE", "DOCK", "MODE", "HOSTS ON", "SERVER", "HOME"},
					[][]string{{string(s.Plane), string(s.Dock), mode, strconv.Itoa(s.HostsOn), dash(s.Server), s.Home}},
				); err != nil {
					return err
				}
				if s.Listen != "" {
					fmt.Fprintf(a.out, "\nOther computers reach it at %s, and hosts enroll at %s.\n", s.Listen, s.Enrolment)
				}
				if text := otherGates(s.FeatureGates); text != "" {
					fmt.Fprintln(a.out, "\nFeature gates:", text)
				}
				if shown.Shares == nil {
					return nil
				}
				return a.shareTable(shown.Shares)
			})
			if err == nil && format == "table" {
				for _, warning := range shown.Warnings {
					fmt.Fprintln(a.err, "Warning:", warning)
				}
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

// otherGates returns the feature gates of a plane that differ from its defaults.
func otherGates(all gates.Set) string {
	usual, err := gates.Plane().With(nil)
	if err != nil {
		return ""
	}
	other := gates.Set{}
	for name, on := range all {
		if on != usual[name] {
			other[name] = on
		}
	}
	return other.String()
}

// sharesLimit limits the request for the shares.
const sharesLimit = 5 * time.Second

// shareTable prints how namespaces share the local hosts, and which of them wait for more.
func (a *app) shareTable(shares []local.Share) error {
	sum := local.Share{Namespace: "all"}
	cells := [][]string{}
	add := func(s local.Share) {
		waits := "-"
		if s.Waits > 0 {
			waits = strconv.Itoa(s.Waits) + " more"
		}
		cells = append(cells, []string{s.Namespace, strconv.Itoa(s.Hosts), strconv.Itoa(s.InUse), waits})
	}
	for _, s := range shares {
		add(s)
		sum.Hosts, sum.InUse, sum.Waits = sum.Hosts+s.Hosts, sum.InUse+s.InUse, sum.Waits+s.Waits
	}
	if len(shares) != 1 {
		add(sum)
	}
	fmt.Fprintln(a.out)
	return a.table([]string{"NAMESPACE", "LOCAL HOSTS", "IN USE", "WAITS FOR"}, cells)
}
