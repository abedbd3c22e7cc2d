package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/local"
)

// completionLimit limits the calls of a completion, because nobody waits longer for one.
const completionLimit = 2 * time.Second

func (a *app) hostCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "host",
		Short:   "Show the hosts of the inventory, add computers to it, take them out of use",
		Aliases: []string{"hosts"}}
	cmd.AddCommand(a.hostListCommand(), a.hostDescribeCommand(), a.hostLogsCommand(), a.hostRebootCommand(),
		a.hostCordonCommand(), a.hostUncordonCommand(), a.hostDrainCommand(), a.hostMaintenanceCommand(),
		a.hostRemoveCommand(), a.hostAbandonCommand(), a.hostAcceptCommand(), a.hostTokenCommand())
	return cmd
}

func (a *app) hostListCommand() *cobra.Command {
	var format string
	var all, wide bool
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the hosts: state, claim, zone, version, reason",
		Long: `Lists the hosts of a namespace. Namespaces with clusters share this machine's local hosts: each gets the hosts
that its clusters need, up to a fair share, and unclaimed hosts come and go. "capstan status" shows the shares, "capstan
up --hosts N" changes the number of hosts.

With --wide it also shows what hosts report about themselves. Nothing verifies these reports.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			namespace := a.namespace
			if all {
				namespace = ""
			}
			hosts, err := local.Hosts(cmd.Context(), c, namespace)
			if err != nil {
				return err
			}
			return a.print(format, hosts, func() error { return a.hostTable(hosts, all, wide) })
		},
	}
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "list the hosts of all namespaces")
	cmd.Flags().BoolVarP(&wide, "wide", "w", false, "also show the system, sizes and virtualization that hosts report")
	outputFlag(cmd, &format)
	return cmd
}

// hostTable prints hosts: with namespaces if there may be several, and with facts if wide.
func (a *app) hostTable(hosts []local.Host, withNamespace, wide bool) error {
	head := []string{"NAME", "STATE", "ZONE", "CLAIMED BY", "VERSION", "ADDRESS", "AGE"}
	if wide {
		head = append(head, "OS", "KERNEL", "ARCH", "CPU", "MEMORY", "DISKS", "RUNS IN", "AGENT")
	}
	head = append(head, "REASON")
	if withNamespace {
		head = append([]string{"NAMESPACE"}, head...)
	}
	cells := make([][]string, 0, len(hosts))
	for _, h := range hosts {
		claim := "-"
		if h.Machine != "" {
			claim = h.Cluster + "/" + h.Machine
		}
		row := []string{h.Name, dash(h.State), h.Zone, claim, dash(h.Version), dash(h.Address), age(h.Created)}
		if wide {
			row = append(row, factCells(h.Facts)...)
		}
		row = append(row, h.Reason)
		if withNamespace {
			row = append([]string{h.Namespace}, row...)
		}
		cells = append(cells, row)
	}
	return a.table(head, cells)
}

// factCells returns the cells with what a host reports about itself.
func factCells(f local.Facts) []string {
	return []string{
		dash(oneLine(f.OperatingSystem, 40)), dash(oneLine(f.Kernel, 40)), dash(f.Architecture),
		number(int64(f.Processors), ""), number(f.MemoryMiB, "Mi"), number(f.DisksGiB, "Gi"), dash(f.Virtualization),
		dash(oneLine(f.AgentVersion, 20)),
	}
}

// number returns a number with its unit, or "-" for zero.
func number(n int64, unit string) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10) + unit
}

func (a *app) hostLogsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "logs NAME", Short: "Print the bootstrap output of a local host",
		Example: "  capstan host logs host-01",
		RunE: func(cmd *cobra.Command, args []string) error {
			log, err := local.BootstrapLog(string(a.home), args[0])
			if err != nil {
				return err
			}
			defer log.Close()
			defer context.AfterFunc(cmd.Context(), func() { log.Close() })() // the host decides how long the log is
			_, err = io.Copy(a.out, log)
			return err
		},
	}
}

func (a *app) hostRebootCommand() *cobra.Command {
	return &cobra.Command{
		Use: "reboot NAME", Short: "Reboot a local host",
		Long:    `Shuts a local host down and starts it again with the same disk. Its node comes back by itself.`,
		Example: "  capstan host reboot host-01",
		ValidArgsFunction: a.completeHost(func(ctx context.Context) ([]string, error) {
			return local.RunningHosts(ctx, string(a.home))
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := local.RebootHost(cmd.Context(), string(a.home), args[0]); err != nil {
				return err
			}
			fmt.Fprintf(a.err, "Host %s is booting.\n", args[0])
			a.next("capstan host list")
			return nil
		},
	}
}

func (a *app) hostAbandonCommand() *cobra.Command {
	return &cobra.Command{
		Use: "abandon NAME", Short: "Give up on a dead host so that its machine can be deleted",
		Long: `A deleted machine waits until the agent has cleaned its host. If the computer has died for good, the agent
will never do that. With this command you confirm that the computer is dead, and the machine is deleted. Make sure that
the computer is off, or it still runs its node.

The host stays out of use until its agent is back and has cleaned it. If the computer is gone, delete the CapstanHost.`,
		Example: "  capstan host abandon host-01",
		ValidArgsFunction: a.completeHost(func(ctx context.Context) ([]string, error) {
			c, err := a.client()
			if err != nil {
				return nil, err
			}
			return local.AbandonableHosts(ctx, c, a.namespace)
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			machine, err := local.Abandon(cmd.Context(), c, client.ObjectKey{Namespace: a.namespace, Name: args[0]})
			if err != nil {
				return err
			}
			fmt.Fprintf(a.err,
				"Machine %s no longer waits for host %s, which stays out of use until its agent has cleaned it.\n",
				machine, args[0])
			a.next("capstan host list", "capstan kubectl delete capstanhost "+args[0]+"   # if the computer is gone for good")
			return nil
		},
	}
}

// completeHost completes one argument with the names that the function list returns.
func (a *app) completeHost(list func(context.Context) ([]string, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 || cmd.Root().PersistentPreRunE(cmd, args) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(context.Background(), completionLimit)
		defer cancel()
		names, err := list(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
