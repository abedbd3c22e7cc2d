package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/describe"
	"github.com/capstan-dev/capstan/runtime/record"
)

// existsTimeout limits how long the timeline waits for the management plane, which is optional.
const existsTimeout = 3 * time.Second

// stillCounts returns a function that reports whether a call can still block something. When that function is first
// called, it asks the management plane. If the plane does not answer, it returns true for all calls.
func (a *app) stillCounts(ctx context.Context) func(record.Call) bool {
	known := sync.OnceValue(func() func(record.Call) bool {
		ctx, cancel := context.WithTimeout(ctx, existsTimeout)
		defer cancel()
		if c, err := a.client(); err == nil {
			if counts, err := describe.StillAsked(ctx, c); err == nil {
				return counts
			}
		}
		return func(record.Call) bool { return true }
	})
	return func(c record.Call) bool { return known()(c) }
}

func (a *app) hookTimelineCommand() *cobra.Command {
	var format string
	var watch bool
	cmd := &cobra.Command{
		Use:   "timeline [CLUSTER]",
		Short: "List the calls of hooks (time, hook, extension, answer, duration) and the current blocks",
		Long: `List the calls of hooks, oldest first, and the current blocks: since when, by whom, and why. The plane
keeps the calls in a file across restarts, and drops the oldest calls when the file is full. With --watch the list
continues with each new call, and with the beginning and end of each block. With -o json each line is a call, or an
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
			shown := describe.TimelineOf(calls, a.stillCounts(cmd.Context()))
			return a.print(format, shown, func() error { return a.timelineTable(shown) })
		},
	}
	outputFlag(cmd, &format)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false,
		"keep listing calls and blocks as they happen, until interrupted")
	return cmd
}

func (a *app) timelineTable(shown describe.Timeline) error {
	if err := a.hookTable(shown.Calls); err != nil || len(shown.Blocked) == 0 {
		return err
	}
	fmt.Fprintln(a.out, "\nBlocked now:")
	rows := make([][]string, 0, len(shown.Blocked))
	for _, b := range shown.Blocked {
		rows = append(rows, []string{
			b.Call.Object.Namespace + "/" + b.Call.Object.Name, b.Call.HookName(), b.Call.Extension + "/" + b.Call.Handler,
			fmt.Sprintf("%s (%s)", b.Since.Local().Format(time.DateTime), age(metav1.NewTime(b.Since))), fmt.Sprint(b.Calls),
			oneLine(b.Call.Why(), 100), b.GoesOnWhen,
		})
	}
	defer a.next(shown.Blocked[0].Unblock + "   # an emergency exit, visible to everybody")
	return a.table([]string{"OBJECT", "HOOK", "BY", "SINCE", "CALLS", "WHY", "GOES ON WHEN"}, rows)
}

// watchTimeline prints the timeline, and then anything new in it, until ctx is done.
func (a *app) watchTimeline(ctx context.Context, cluster, format string) error {
	if format == "yaml" {
		return hint("use -o table or -o json", "--watch does not support -o yaml")
	}
	read := func() ([]record.Call, error) { return a.hookCalls(cluster) }
	return describe.Follow(ctx, read, a.stillCounts(ctx), func(e describe.Entry) error {
		if format == "json" {
			return json.NewEncoder(a.out).Encode(e)
		}
		_, err := io.WriteString(a.out, e.Text(time.Now()))
		return err
	})
}
