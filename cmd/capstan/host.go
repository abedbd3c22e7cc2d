package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/dock"
)

func (a *app) hostCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "host", Short: "See the hosts of the inventory, reboot local ones, give up dead ones", Aliases: []string{"hosts"}}
	cmd.AddCommand(a.hostListCommand(), a.hostLogsCommand(), a.hostRebootCommand(), a.hostAbandonCommand())
	return cmd
}

// hostRow is a line of "host list"; its JSON form is stable.
type hostRow struct {
	Name    string      `json:"name"`
	State   string      `json:"state"`
	Zone    string      `json:"zone"`
	Cluster string      `json:"cluster,omitempty"`
	Machine string      `json:"machine,omitempty"`
	Version string      `json:"version,omitempty"`
	Address string      `json:"address,omitempty"`
	Created metav1.Time `json:"created"`
	Reason  string      `json:"reason,omitempty"`
}

// hostRowOf sums up a host. Pure.
func hostRowOf(h *infrav1.CapstanHost) hostRow {
	row := hostRow{Name: h.Name, State: string(h.Status.Phase), Zone: h.Spec.Zone, Created: h.CreationTimestamp}
	if claim := h.Spec.Claim; claim != nil {
		row.Cluster, row.Machine, row.Version = claim.Cluster, claim.Machine, claim.KubernetesVersion
	}
	if agent := h.Status.Agent; agent != nil {
		row.Address = agent.Address
	}
	if c := condition(h.Status.Conditions, infrav1.ReadyCondition); c != nil && c.Status != metav1.ConditionTrue {
		row.Reason = oneLine(c.Message, 80)
	}
	if h.Spec.Unschedulable && row.Reason == "" {
		row.Reason = "unschedulable"
	}
	return row
}

func (a *app) hostListCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the hosts: state, claim, zone, version, reason", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			list := &infrav1.CapstanHostList{}
			if err := c.List(cmd.Context(), list, client.InNamespace(a.namespace)); err != nil {
				return hint("run: capstan status", "listing hosts: %w", err)
			}
			rows := make([]hostRow, 0, len(list.Items))
			for i := range list.Items {
				rows = append(rows, hostRowOf(&list.Items[i]))
			}
			sort.Slice(rows, func(i, j int) bool { return rows[i].Name < rows[j].Name })
			return a.print(format, rows, func() error {
				cells := make([][]string, 0, len(rows))
				for _, r := range rows {
					claim := "-"
					if r.Machine != "" {
						claim = r.Cluster + "/" + r.Machine
					}
					cells = append(cells, []string{r.Name, dash(r.State), r.Zone, claim, dash(r.Version), dash(r.Address), age(r.Created), r.Reason})
				}
				return a.table([]string{"NAME", "STATE", "ZONE", "CLAIMED BY", "VERSION", "ADDRESS", "AGE", "REASON"}, cells)
			})
		},
	}
	outputFlag(cmd, &format)
	return cmd
}

func (a *app) hostLogsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "logs NAME", Short: "Print what the bootstrap of a local host printed", Args: cobra.ExactArgs(1),
		Example: "  capstan host logs host-01",
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] != filepath.Base(args[0]) || args[0] == ".." || args[0] == "." {
				return hint("see: capstan host list", "%q is not the name of a host", args[0])
			}
			path := filepath.Join(a.home.HostRoot(args[0]), "var", "log", "capstan", "bootstrap.log")
			file, err := os.Open(path)
			if errors.Is(err, os.ErrNotExist) {
				return hint("see which hosts there are and what they do: capstan host list", "host %s has no bootstrap output: it is not a local host, or it has not run its bootstrap data", args[0])
			}
			if err != nil {
				return fmt.Errorf("reading the output of host %s: %w", args[0], err)
			}
			defer file.Close()
			_, err = io.Copy(a.out, file)
			return err
		},
	}
}

func (a *app) hostRebootCommand() *cobra.Command {
	return &cobra.Command{
		Use: "reboot NAME", Short: "Reboot a local host", Args: cobra.ExactArgs(1),
		Long:              `Powers a local host off in good order and on again, with the disk it has. Its node comes back by itself.`,
		Example:           "  capstan host reboot host-01",
		ValidArgsFunction: a.completeLocalHost,
		RunE: func(cmd *cobra.Command, args []string) error {
			docked := a.dock()
			defer docked.Close()
			ctx, cancel := context.WithTimeout(cmd.Context(), time.Minute)
			defer cancel()
			switch err := docked.RebootHost(ctx, args[0]); {
			case errors.Is(err, dock.ErrNotRunning):
				return hint("run: capstan up", "rebooting host %s: no local hosts run", args[0])
			case dock.CodeOf(err) == dock.CodeNotFound:
				return hint("see: capstan host list (hosts that are Off have nothing to reboot)", "there is no local host %q that is on", args[0])
			case err != nil:
				return fmt.Errorf("rebooting host %s: %w", args[0], err)
			}
			fmt.Fprintf(a.err, "Host %s boots.\n", args[0])
			a.next("capstan host list")
			return nil
		},
	}
}

// completeLocalHost completes the names of the local hosts that are on.
func (a *app) completeLocalHost(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 || cmd.Root().PersistentPreRunE(cmd, args) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	docked := a.dock()
	defer docked.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	hosts, err := docked.ListHosts(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, h := range hosts {
		if h.State == dock.HostRunning {
			names = append(names, h.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
