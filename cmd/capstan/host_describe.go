package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/local"
)

// hostKey returns the key of a host in the namespace of this command.
func (a *app) hostKey(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: a.namespace, Name: name}
}

// completeHosts completes one argument with the names of the hosts for which the function fits returns true.
func (a *app) completeHosts(fits func(local.Host) bool) cobra.CompletionFunc {
	return a.completeHost(func(ctx context.Context) ([]string, error) {
		c, err := a.client()
		if err != nil {
			return nil, err
		}
		hosts, err := local.Hosts(ctx, c, a.namespace)
		var names []string
		for _, h := range hosts {
			if fits(h) {
				names = append(names, h.Name)
			}
		}
		return names, err
	})
}

func anyHost(local.Host) bool { return true }

func (a *app) hostDescribeCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "describe NAME", Short: "Show everything about a host: claim, facts, conditions, and what it waits for",
		Long: `Shows everything about a host: its claim, what an administrator requested, the facts that it reports, its
conditions, and what it waits for. Nothing verifies the reported facts; people set zone and labels.

"Pods" is what the Node on the host reports: whether its pods are real or hollow, which user and group ids their
containers can have (all, or one), and which limits apply.

"Bundles from" is the source of a node's programs that the CapstanHost sets, if it sets one. The agent's own
configuration takes precedence.`,
		Example:           "  capstan host describe rack1-07",
		ValidArgsFunction: a.completeHosts(anyHost),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			d, err := local.DescribeHost(cmd.Context(), c, a.hostKey(args[0]))
			if err != nil {
				return err
			}
			if d.Cluster != "" {
				d.Pods = a.podsOfHost(cmd.Context(), c, d)
			}
			return a.print(format, d, func() error { return a.hostDetails(d) })
		},
	}
	outputFlag(cmd, &format)
	return cmd
}

// podsOfHost returns how pods run on the Node of a claimed host, or nil if that is unknown, for example because the
// Node does not exist yet.
func (a *app) podsOfHost(ctx context.Context, c client.Reader, d local.HostDetails) *local.NodePods {
	cluster, err := a.cluster(ctx, c, d.Cluster)
	if err != nil {
		return nil
	}
	all, err := local.PodsOfNodes(ctx, string(a.home), c, cluster)
	if err != nil {
		return nil
	}
	for i := range all {
		if all[i].Host == d.Name {
			return &all[i]
		}
	}
	return nil
}

// hostDetails prints everything about a host.
func (a *app) hostDetails(d local.HostDetails) error {
	w := tabwriter.NewWriter(a.out, 0, 4, 3, ' ', 0)
	row := func(name, value string) { fmt.Fprintf(w, "%s:\t%s\n", name, dash(oneLine(value, 400))) }
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(d.Labels)) {
		labels = append(labels, key+"="+d.Labels[key])
	}
	claim := ""
	if d.Machine != "" {
		claim = fmt.Sprintf("machine %s of cluster %s, %s", d.Machine, d.Cluster, dash(d.Version))
	}
	row("Name", d.Name)
	row("Namespace", d.Namespace)
	row("Zone", d.Zone)
	row("Labels", strings.Join(labels, ","))
	row("State", d.State)
	row("Claimed by", claim)
	row("Asked for", d.Work)
	row("Waits for", d.WaitsFor)
	pods := ""
	if d.Pods != nil {
		pods = d.Pods.String()
	}
	row("Pods", pods)
	row("Address", d.Address)
	row("Further addresses", strings.Join(d.Addresses, ", "))
	row("Offers", strings.Join(d.KubernetesVersions, ", "))
	row("Bundles from", d.Bundles)
	row("Epoch", fmt.Sprint(d.Epoch))
	fmt.Fprintln(w, "Reported by the host:\t")
	row("  System", d.Facts.OperatingSystem)
	row("  Kernel", d.Facts.Kernel)
	row("  Architecture", d.Facts.Architecture)
	row("  Model", d.Model)
	row("  Runs in", d.Facts.Virtualization)
	row("  Processors", strings.TrimSpace(number(int64(d.Facts.Processors), "")+" "+d.ProcessorModel))
	row("  Memory", number(d.Facts.MemoryMiB, " MiB"))
	row("  Disks", disksText(d))
	row("  Agent", d.Facts.AgentVersion)
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(a.out)
	cells := make([][]string, 0, len(d.Conditions))
	for _, c := range d.Conditions {
		cells = append(cells, []string{
			c.Type, string(c.Status), c.Reason, age(c.LastTransitionTime), oneLine(c.Message, 400),
		})
	}
	return a.table([]string{"CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE"}, cells)
}

func disksText(d local.HostDetails) string {
	var all []string
	for _, disk := range d.Disks {
		text := fmt.Sprintf("%s %d GiB", disk.Name, disk.SizeGiB)
		if disk.Rotational {
			text += " (rotational)"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}
