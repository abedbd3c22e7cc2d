package main

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/plane/hooks"
	"github.com/capstan-dev/capstan/runtime/hook"
)

func (a *app) hookListCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "list", Short: "List all hooks and their handlers",
		Long: `List the hooks of Cluster API: version, whether an extension can block them, the release that introduced them,
and the handlers of installed extensions. Without a management plane, the handlers are left out.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var installed []runtimev1.ExtensionConfig
			if _, err := os.Stat(a.home.Kubeconfig()); err == nil {
				c, err := a.client()
				if err != nil {
					return err
				}
				if installed, err = hooks.Installed(cmd.Context(), c); err != nil {
					return err
				}
			} else if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			rows := hooks.List(hook.ClusterAPI(), installed)
			return a.print(format, rows, func() error { return a.hookListTable(rows) })
		},
	}
	outputFlag(cmd, &format)
	return cmd
}

func (a *app) hookListTable(rows []hooks.Hook) error {
	table := make([][]string, 0, len(rows))
	for _, r := range rows {
		blocks := "no"
		if r.Blocks {
			blocks = "yes"
		}
		table = append(table, []string{r.Hook, r.Version[strings.LastIndex(r.Version, "/")+1:], blocks, dash(r.Since),
			dash(strings.Join(r.Handlers, ","))})
	}
	return a.table([]string{"HOOK", "VERSION", "BLOCKS", "SINCE", "HANDLERS"}, table)
}
