package main

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/runtime/record"
	"github.com/capstan-dev/capstan/runtime/unblock"
)

// unblockWait bounds how long the command looks whether the cluster has gone through: it is asked about again within seconds.
const unblockWait = time.Minute

// journalLag is how much later than the Cluster the journal may show that a permission was used.
const journalLag = 3 * time.Second

func (a *app) hookUnblockCommand() *cobra.Command {
	var extension, reason string
	var duration time.Duration
	cmd := &cobra.Command{
		Use: "unblock CLUSTER HOOK", Short: "Let a cluster through a hook that blocks it, once: an emergency exit, which everybody sees", Args: cobra.ExactArgs(2),
		Long: `Let a cluster through a hook that handlers hold it back at, because they ask for more time or because they fail. It works once, for this hook, for what the cluster's
spec is now. Who did it and why is in the timeline and in a Warning Event of the cluster. What the handlers would have made sure of is not made sure of: a backup for example is not taken.`,
		Example: `  capstan hook unblock demo BeforeClusterUpgrade --reason "security fix, can't wait for Saturday"
  capstan hook unblock demo BeforeClusterDelete --extension audit --reason "audit system is gone"`,
		ValidArgsFunction: a.completeBlocked,
		RunE: func(cmd *cobra.Command, args []string) error {
			order := unblock.Order{Extension: extension, Reason: strings.TrimSpace(reason), Until: time.Now().Add(duration)}
			if duration <= 0 || duration > unblock.MaxDuration {
				return fmt.Errorf("--for is %s: it must be more than nothing, and %s at most", duration, unblock.MaxDuration)
			}
			if order.Reason == "" {
				return hint(`give --reason "..."`, "unblocking a hook needs a reason, for those who look at it later")
			}
			return a.unblock(cmd.Context(), args[0], args[1], order)
		},
	}
	cmd.Flags().StringVar(&extension, "extension", "", "pass over the handlers of this ExtensionConfig only (default: all that block)")
	cmd.Flags().StringVar(&reason, "reason", "", "why; everybody can read it (required)")
	cmd.Flags().DurationVar(&duration, "for", 10*time.Minute, "for how long it may be used")
	_ = cmd.RegisterFlagCompletionFunc("extension", a.completeBlocking)
	return cmd
}

func (a *app) unblock(ctx context.Context, name, hook string, order unblock.Order) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	cluster, err := a.cluster(ctx, c, name)
	if err != nil {
		return err
	}
	calls, err := a.hookCalls(name)
	if err != nil {
		return err
	}
	blocks, err := blocksAt(record.Blocks(calls), hook, order.Extension)
	if err != nil {
		return hint("see: capstan hook timeline "+name, "unblocking cluster %s: %w", name, err)
	}
	order.Hook = blocks[0].Call.HookName()
	if order.By, err = whoAmI(ctx, c); err != nil {
		return err
	}
	for _, b := range blocks {
		fmt.Fprintf(a.err, "%s/%s: %s\n", b.Call.Extension, b.Call.Handler, oneLine(b.Call.Why(), 160))
	}
	if err := grant(ctx, c, cluster, order); err != nil {
		return err
	}
	return a.waitForPass(ctx, c, cluster, order, blocks[0].Call.Time)
}

// grant writes the permission. The cluster's status changes all the time, so a conflict is tried again.
func grant(ctx context.Context, c client.Client, cluster *clusterv1.Cluster, order unblock.Order) error {
	generation := cluster.Generation
	return poll(ctx, func() (bool, error) {
		if err := unblock.Grant(ctx, c, cluster, order); err == nil {
			return true, nil
		} else if again := c.Get(ctx, client.ObjectKeyFromObject(cluster), cluster); again != nil {
			return false, again
		} else if cluster.Generation != generation {
			return true, hint("look at it again: capstan hook timeline "+cluster.Name, "cluster %s was changed by somebody in this moment", cluster.Name)
		} else {
			return false, err
		}
	})
}

// waitForPass waits until the permission was used.
func (a *app) waitForPass(ctx context.Context, c client.Client, cluster *clusterv1.Cluster, order unblock.Order, after time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, min(unblockWait, time.Until(order.Until)))
	defer cancel()
	var gone time.Time // when the permission was seen to be gone; the journal has the call a moment later
	err := a.steps().Run(order.Hook+" passed", func(detail func(string)) error {
		return poll(ctx, func() (bool, error) {
			calls, err := a.hookCalls(cluster.Name)
			if err != nil {
				return false, err
			}
			if passedSince(calls, order.Hook, after) {
				return true, nil
			}
			if !gone.IsZero() && time.Since(gone) > journalLag {
				return true, notPassed(calls, order)
			}
			if err := c.Get(ctx, client.ObjectKeyFromObject(cluster), cluster); err != nil {
				return false, err
			}
			switch there := cluster.Annotations[unblock.Annotation] != ""; {
			case there:
				gone = time.Time{}
			case gone.IsZero():
				gone = time.Now()
			}
			detail(stillBlocked(calls, order))
			return false, nil
		})
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return hint("see: capstan hook timeline "+cluster.Name, "the cluster was not let through yet; it may be until %s", order.Until.Local().Format(time.TimeOnly))
	}
	if err != nil {
		return fmt.Errorf("unblocking cluster %s: %w", cluster.Name, err)
	}
	a.next("capstan hook timeline "+cluster.Name, "capstan cluster describe "+cluster.Name)
	return nil
}

// notPassed says why a permission is gone that was not used. Pure.
func notPassed(calls []record.Call, order unblock.Order) error {
	if _, err := blocksAt(record.Blocks(calls), order.Hook, order.Extension); err != nil {
		return errors.New("it was not needed any more: nothing blocks there now")
	}
	return hint("run it again", "somebody has removed the permission before it could be used")
}

// passedSince tells whether an administrator's permission was used. Pure.
func passedSince(calls []record.Call, hook string, after time.Time) bool {
	return slices.ContainsFunc(calls, func(c record.Call) bool {
		return c.Answer == record.Passed && c.HookName() == hook && c.Time.After(after)
	})
}

// stillBlocked says who else holds the cluster back. Pure.
func stillBlocked(calls []record.Call, order unblock.Order) string {
	for _, b := range record.Blocks(calls) {
		if b.Call.HookName() == order.Hook && order.Extension != "" && b.Call.Extension != order.Extension {
			return fmt.Sprintf("extension %s blocks, too: %s", b.Call.Extension, oneLine(b.Call.Why(), 100))
		}
	}
	return "waiting until the cluster is asked about again"
}

// blocksAt finds what blocks at a hook. Pure.
func blocksAt(all []record.Block, hook, extension string) ([]record.Block, error) {
	if len(all) == 0 {
		return nil, errors.New("no hook blocks it")
	}
	var found []record.Block
	var others []string
	for _, b := range all {
		name := b.Call.HookName()
		if strings.EqualFold(name, hook) && (extension == "" || extension == b.Call.Extension) {
			found = append(found, b)
		} else {
			others = append(others, name+" by extension "+b.Call.Extension)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("hook %s does not block it; what does: %s", hook, strings.Join(others, ", "))
	}
	return found, nil
}

// whoAmI is who gives a permission: the user that the API server knows, and the one of this machine.
func whoAmI(ctx context.Context, c client.Client) (string, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, review); err != nil {
		return "", fmt.Errorf("asking the management plane who you are: %w", err)
	}
	who := review.Status.UserInfo.Username
	if here, err := user.Current(); err == nil {
		who += " (" + here.Username + ")"
	}
	return who, nil
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

func (a *app) completeBlocks(cmd *cobra.Command, args []string, what func(record.Call) string) ([]string, cobra.ShellCompDirective) {
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
