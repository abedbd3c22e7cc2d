package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

func (a *app) hostCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "host", Short: "See the hosts of the inventory", Aliases: []string{"hosts"}}
	cmd.AddCommand(a.hostListCommand(), a.hostLogsCommand())
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
