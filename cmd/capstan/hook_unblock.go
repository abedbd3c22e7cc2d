package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/plane/hooks"
	"github.com/capstan-dev/capstan/runtime/record"
	"github.com/capstan-dev/capstan/runtime/unblock"
)

// hookUnblockCommand is an administrator's emergency override.
func (a *app) hookUnblockCommand() *cobra.Command {
	var extension, reason string
	var duration time.Duration
	cmd := &cobra.Command{
		Use:   "unblock CLUSTER HOOK",
		Short: "Let a cluster through a blocking hook once: an emergency exit, visible to everybody",
		Long: `Let a cluster through a hook whose handlers block it, because they ask for more time or fail. The permission
works once, for this hook and the cluster's current spec. The timeline and a Warning Event of the cluster record who
gave it and why. Nothing replaces the work of the handlers that are passed over: a backup, for example, is not taken.`,
		Example: `  capstan hook unblock demo BeforeClusterUpgrade --reason "security fix, can't wait for Saturday"
  capstan hook unblock demo BeforeClusterDelete --extension audit --reason "audit system is gone"`,
		ValidArgsFunction: a.completeBlocked,
		RunE: func(cmd *cobra.Command, args []string) error {
			order := unblock.Order{
				Hook: args[1], Extension: extension,
				Reason: strings.TrimSpace(reason), Until: time.Now().Add(duration),
			}
			if duration <= 0 || duration > unblock.MaxDuration {
				return fmt.Errorf("--for is %s: it must be positive, and at most %s", duration, unblock.MaxDuration)
			}
			if order.Reason == "" {
				return hint(`give --reason "..."`, "unblocking a hook needs a reason, for those who review it later")
			}
			return a.unblock(cmd.Context(), args[0], order)
		},
	}
	cmd.Flags().StringVar(&extension, "extension", "",
		"pass over only the handlers of this ExtensionConfig (default: all that block)")
	cmd.Flags().StringVar(&reason, "reason", "", "reason; everybody can read it (required)")
	cmd.Flags().DurationVar(&duration, "for", 10*time.Minute, "how long the permission lasts")
	_ = cmd.RegisterFlagCompletionFunc("extension", a.completeBlocking)
	return cmd
}

// unblock lets a cluster pass a hook.
func (a *app) unblock(ctx context.Context, name string, order unblock.Order) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	cluster, err := a.cluster(ctx, c, name)
	if err != nil {
		return err
	}
	u := &hooks.Unblocking{
		Client: c, Cluster: cluster, Order: order, Calls: func() ([]record.Call, error) { return a.hookCalls(name) },
	}
	blocks, err := u.Find(ctx)
	if err != nil {
		return err
	}
	for _, b := range blocks {
		fmt.Fprintf(a.err, "%s/%s: %s\n", b.Call.Extension, b.Call.Handler, oneLine(b.Call.Why(), 160))
	}
	if err := u.Grant(ctx); err != nil {
		return err
	}
	err = a.steps().Run(u.Order.Hook+" passed", func(detail func(string)) error { return u.Wait(ctx, detail) })
	if err != nil {
		return err
	}
	a.next("capstan hook timeline "+cluster.Name, "capstan cluster describe "+cluster.Name)
	return nil
}

// completeBlocked completes a cluster, then the hooks that block it.
func (a *app) completeBlocked(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return a.completeCluster(cmd, args, typed)
	}
	if len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeBlocks(cmd, args, func(c record.Call) string { return c.HookName() })
}

// completeBlocking completes the extensions that block a cluster.
func (a *app) completeBlocking(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeBlocks(cmd, args, func(c record.Call) string { return c.Extension })
}

func (a *app) completeBlocks(cmd *cobra.Command, args []string,
	what func(record.Call) string) ([]string, cobra.ShellCompDirective) {
	if cmd.Root().PersistentPreRunE(cmd, args) != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	calls, err := a.hookCalls(args[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, b := range record.Blocks(calls) {
		names = append(names, what(b.Call))
	}
	slices.Sort(names)
	return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
}
