package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/capstan-dev/capstan/local/credential"
)

func (a *app) hostTokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "token", Aliases: []string{"tokens"},
		Short: "Create, list and revoke credentials with which computers become hosts",
		Long: `Creates, lists and revokes enrolment credentials. Whoever has a credential can make a computer a host of the
plane, within its limits.`,
	}
	cmd.AddCommand(a.hostTokenCreateCommand(), a.hostTokenListCommand(), a.hostTokenRevokeCommand())
	return cmd
}

func (a *app) hostTokenListCommand() *cobra.Command {
	var format string
	var all bool
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"},
		Short: "List the enrolment credentials: their limits, expiry and uses",
		Long: `Lists the enrolment credentials for hosts of a namespace, without their secrets. Expired and used-up
credentials stay in the list for a day.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			namespace := a.namespace
			if all {
				namespace = ""
			}
			list, err := credential.List(cmd.Context(), c, namespace, time.Now())
			if err != nil {
				return hint("run: capstan status", "%w", err)
			}
			return a.print(format, list, func() error { return a.tokenTable(list, all) })
		},
	}
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "list the credentials for hosts of all namespaces")
	outputFlag(cmd, &format)
	return cmd
}

// tokenTable prints credentials, with namespaces if there may be several.
func (a *app) tokenTable(list []credential.Credential, withNamespace bool) error {
	head := []string{"ID", "STATE", "NAMES", "ZONE", "LABELS", "USED", "EXPIRES", "HOSTS"}
	if withNamespace {
		head = append([]string{"NAMESPACE"}, head...)
	}
	cells := make([][]string, 0, len(list))
	for _, c := range list {
		names := c.Name
		if names == "" {
			names = "*"
		}
		expires := "-"
		if left := time.Until(c.Expires); left > 0 {
			expires = "in " + duration.HumanDuration(left)
		}
		var labels, hosts []string
		for _, key := range slices.Sorted(maps.Keys(c.Labels)) {
			labels = append(labels, key+"="+c.Labels[key])
		}
		for _, use := range c.Used {
			hosts = append(hosts, use.Host)
		}
		row := []string{c.ID, string(c.State), names, dash(c.Zone), dash(strings.Join(labels, ",")),
			fmt.Sprintf("%d/%d", len(c.Used), c.Uses), expires, dash(oneLine(strings.Join(hosts, ","), 60))}
		if withNamespace {
			row = append([]string{c.Limits.Namespace}, row...)
		}
		cells = append(cells, row)
	}
	return a.table(head, cells)
}

func (a *app) hostTokenRevokeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID", Short: "Revoke an enrolment credential",
		Long:    `Revokes an enrolment credential. Hosts that enrolled with it stay enrolled.`,
		Example: "  capstan host token revoke k3nd5xq7aj",
		ValidArgsFunction: a.completeHost(func(ctx context.Context) ([]string, error) {
			c, err := a.client()
			if err != nil {
				return nil, err
			}
			list, err := credential.List(ctx, c, "", time.Now())
			var ids []string
			for _, one := range list {
				ids = append(ids, one.ID)
			}
			return ids, err
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			if err := credential.Revoke(cmd.Context(), c, args[0]); err != nil {
				return err
			}
			fmt.Fprintf(a.err, "Credential %s is revoked.\n", args[0])
			a.next("capstan host token list", "capstan host list   # hosts that enrolled with it stay")
			return nil
		},
	}
}
