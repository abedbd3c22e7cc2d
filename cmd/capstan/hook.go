package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/runtime/record"
)

func (a *app) hookCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "hook", Short: "Runtime hooks: their calls and handlers, and tools for authors of extensions",
		Aliases: []string{"hooks"},
	}
	cmd.AddCommand(a.hookTimelineCommand(), a.hookUnblockCommand(), a.hookListCommand(), a.hookCallCommand(),
		a.hookTestCommand(), a.hookNewCommand(), a.hookLintCommand(),
		a.hookPreflightCommand(), a.hookOpenAPICommand())
	return cmd
}

// hookCalls returns the calls made for a cluster, or all calls.
func (a *app) hookCalls(cluster string) ([]record.Call, error) {
	all, err := record.Read(a.home.Hooks())
	if err != nil {
		return nil, err
	}
	return record.Of(all, a.namespace, cluster), nil
}

func (a *app) hookTable(calls []record.Call) error {
	rows := make([][]string, 0, len(calls))
	for _, g := range record.Repeats(calls) {
		answer := string(g.Call.Answer)
		if g.Times > 1 {
			answer = fmt.Sprintf("%s (%d times)", answer, g.Times)
		}
		text := g.Call.Why()
		if g.Call.PassedBy != "" {
			text = "by " + g.Call.PassedBy + "; it says: " + text
		}
		rows = append(rows, []string{
			g.Call.Time.Local().Format(time.TimeOnly), g.Call.HookName(), g.Call.Object.Name,
			g.Call.Extension + "/" + g.Call.Handler, answer,
			g.Call.Duration.Round(100 * time.Microsecond).String(), oneLine(text, 100),
		})
	}
	return a.table([]string{"TIME", "HOOK", "OBJECT", "EXTENSION", "ANSWER", "TOOK", "MESSAGE"}, rows)
}

// writeHooks prints the calls for a cluster below its tree.
func (a *app) writeHooks(cluster string) error {
	calls, err := a.hookCalls(cluster)
	if err != nil || len(calls) == 0 {
		return err
	}
	fmt.Fprintln(a.out, "\nLifecycle hooks:")
	return a.hookTable(calls)
}

// hookName shortens group/version/Name to Name.
func hookName(hook string) string { return record.HookName(hook) }
