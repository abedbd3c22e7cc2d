package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/runtime/record"
)

func (a *app) hookCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "hook", Short: "Runtime hooks: which were called, who handles them, tools for authors of extensions", Aliases: []string{"hooks"}}
	cmd.AddCommand(a.hookTimelineCommand(), a.hookUnblockCommand(), a.hookListCommand(), a.hookCallCommand(), a.hookTestCommand(), a.hookNewCommand(), a.hookLintCommand(),
		a.hookPreflightCommand(), a.hookOpenAPICommand())
	return cmd
}

// hookCalls reads the calls that were made for a cluster, or all of them.
func (a *app) hookCalls(cluster string) ([]record.Call, error) {
	all, err := record.Read(a.home.Hooks())
	if err != nil {
		return nil, err
	}
	calls := []record.Call{}
	for _, c := range all {
		if cluster == "" || (c.Object.Name == cluster && c.Object.Namespace == a.namespace) {
			calls = append(calls, c)
		}
	}
	return calls, nil
}

func (a *app) hookTable(calls []record.Call) error {
	rows := make([][]string, 0, len(calls))
	for _, g := range groupCalls(calls) {
		answer := string(g.call.Answer)
		if g.times > 1 {
			answer = fmt.Sprintf("%s (%d times)", answer, g.times)
		}
		text := blockText(g.call)
		if g.call.PassedBy != "" {
			text = "by " + g.call.PassedBy + "; it says: " + text
		}
		rows = append(rows, []string{
			g.call.Time.Local().Format(time.TimeOnly), hookName(g.call.Hook), g.call.Object.Name, g.call.Extension + "/" + g.call.Handler,
			answer, g.call.Duration.Round(100 * time.Microsecond).String(), oneLine(text, 100),
		})
	}
	return a.table([]string{"TIME", "HOOK", "OBJECT", "EXTENSION", "ANSWER", "TOOK", "MESSAGE"}, rows)
}

// writeHooks prints the calls for one cluster below its tree.
func (a *app) writeHooks(cluster string) error {
	calls, err := a.hookCalls(cluster)
	if err != nil || len(calls) == 0 {
		return err
	}
	fmt.Fprintln(a.out, "\nLifecycle hooks:")
	return a.hookTable(calls)
}

// callGroup is a run of calls of one handler with one answer: a blocked hook is called again and again.
type callGroup struct {
	call  record.Call // the last one
	times int
}

// groupCalls joins calls that follow one another and differ in time only.
func groupCalls(calls []record.Call) []callGroup {
	var groups []callGroup
	for _, c := range calls {
		if n := len(groups); n > 0 {
			last := groups[n-1].call
			if last.Hook == c.Hook && last.Extension == c.Extension && last.Handler == c.Handler && last.Object == c.Object && last.Answer == c.Answer && last.Answer != record.Success {
				groups[n-1] = callGroup{c, groups[n-1].times + 1}
				continue
			}
		}
		groups = append(groups, callGroup{c, 1})
	}
	return groups
}

// hookName shortens group/version/Name to Name.
func hookName(hook string) string { return hook[strings.LastIndex(hook, "/")+1:] }
