package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/runtime/record"
)

// existsTimeout bounds how long the timeline waits for the management plane, which it can do without.
const existsTimeout = 3 * time.Second

// timeline is what "hook timeline" shows; its JSON form is stable.
type timeline struct {
	// Calls that were made, oldest first.
	Calls []record.Call `json:"calls"`
	// Blocked is what is held back now.
	Blocked []blocked `json:"blocked"`
}

// blocked is a block, with what ends it.
type blocked struct {
	record.Block

	// GoesOnWhen says what ends it.
	GoesOnWhen string `json:"goesOnWhen"`
	// Unblock is the command that lets the object through all the same.
	Unblock string `json:"unblock"`
}

// blockedNow gives what is held back now, of the clusters that exist, by handlers that are still asked. Pure.
func blockedNow(calls []record.Call, counts func(record.Call) bool) []blocked {
	shown := []blocked{}
	for _, b := range record.Blocks(calls) {
		if !counts(b.Call) {
			continue
		}
		shown = append(shown, withWayOut(b))
	}
	return shown
}

// withWayOut adds what ends a block. Pure.
func withWayOut(b record.Block) blocked {
	o := b.Call.Object
	command := inNamespace("capstan hook unblock "+o.Name+" "+hookName(b.Call.Hook)+` --reason "..."`, o.Namespace)
	return blocked{Block: b, GoesOnWhen: wayOut(b.Call), Unblock: command}
}

// stillCounts gives a function that tells whether the cluster of a call is still there, and its handler still asked; all are if nobody can tell.
func (a *app) stillCounts(ctx context.Context) func(record.Call) bool {
	all := func(record.Call) bool { return true }
	c, err := a.client()
	if err != nil {
		return all
	}
	ctx, cancel := context.WithTimeout(ctx, existsTimeout)
	defer cancel()
	clusters, extensions := &clusterv1.ClusterList{}, &runtimev1.ExtensionConfigList{}
	if err := errors.Join(c.List(ctx, clusters), c.List(ctx, extensions)); err != nil {
		return all
	}
	return counting(clusters.Items, extensions.Items)
}

// counting is stillCounts for what there is. Pure.
func counting(clusters []clusterv1.Cluster, extensions []runtimev1.ExtensionConfig) func(record.Call) bool {
	there := map[record.Object]bool{}
	for _, cluster := range clusters {
		there[record.Object{Kind: "Cluster", Namespace: cluster.Namespace, Name: cluster.Name}] = true
	}
	handlers := map[string][]string{} // by extension
	for _, e := range extensions {
		names := []string{}
		for _, h := range e.Status.Handlers {
			names = append(names, h.Name)
		}
		handlers[e.Name] = names
	}
	return func(call record.Call) bool {
		names, registered := handlers[call.Extension]
		asked := registered && (len(names) == 0 || slices.Contains(names, call.Handler+"."+call.Extension)) // without names nobody knows yet
		return asked && (call.Object.Kind != "Cluster" || there[call.Object])
	}
}

func (a *app) hookTimelineCommand() *cobra.Command {
	var format string
	var watch bool
	cmd := &cobra.Command{
		Use: "timeline [CLUSTER]", Short: "List the calls (when, hook, extension, answer, duration), and what is blocked now", Args: cobra.MaximumNArgs(1),
		Long: `List the calls of hooks, oldest first, and what is blocked now: since when, by whom, and why. The journal outlives restarts and is bounded: the
oldest calls are forgotten. With --watch it goes on with each call as it is made, and says when a block begins and ends; with -o json each is a line: a call, or an
object with the field "blocked" or "goesOn".`,
		ValidArgsFunction: a.completeCluster,
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			calls, err := a.hookCalls(name)
			if err != nil {
				return err
			}
			if watch {
				return a.watchTimeline(cmd.Context(), name, format)
			}
			shown := timeline{Calls: calls, Blocked: blockedNow(calls, a.stillCounts(cmd.Context()))}
			return a.print(format, shown, func() error { return a.timelineTable(shown) })
		},
	}
	outputFlag(cmd, &format)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on until interrupted, with each call as it is made, and each block")
	return cmd
}

func (a *app) timelineTable(shown timeline) error {
	if err := a.hookTable(shown.Calls); err != nil || len(shown.Blocked) == 0 {
		return err
	}
	fmt.Fprintln(a.out, "\nBlocked now:")
	rows := make([][]string, 0, len(shown.Blocked))
	for _, b := range shown.Blocked {
		rows = append(rows, []string{
			b.Call.Object.Namespace + "/" + b.Call.Object.Name, hookName(b.Call.Hook), b.Call.Extension + "/" + b.Call.Handler,
			fmt.Sprintf("%s (%s)", b.Since.Local().Format(time.DateTime), age(metav1.NewTime(b.Since))), fmt.Sprint(b.Calls), oneLine(blockText(b.Call), 100), b.GoesOnWhen,
		})
	}
	defer a.next(shown.Blocked[0].Unblock + "   # an emergency exit, which everybody sees")
	return a.table([]string{"OBJECT", "HOOK", "BY", "SINCE", "CALLS", "WHY", "GOES ON WHEN"}, rows)
}

func blockText(call record.Call) string {
	if call.Err != nil {
		return call.Err.Error()
	}
	return call.Message
}

// wayOut says what ends a block. Pure.
func wayOut(call record.Call) string {
	switch {
	case call.NotAsked:
		return "the extension answers again: it is left alone for a while, because its last calls failed"
	case call.Answer == record.Failure:
		return "a call succeeds: look at the extension; it is tried again by itself"
	}
	return fmt.Sprintf("the handler lets it through; it is asked again within %s", max(call.RetryAfter, time.Second).Round(time.Second))
}
