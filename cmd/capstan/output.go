package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/text"
)

// outputFlag adds -o to a command that lists something.
func outputFlag(cmd *cobra.Command, format *string) {
	cmd.Flags().StringVarP(format, "output", "o", "table", "output format: table, json or yaml")
	_ = cmd.RegisterFlagCompletionFunc("output", func(*cobra.Command, []string,
		string) ([]string, cobra.ShellCompDirective) {
		return []string{"table", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp
	})
}

// print writes value as JSON or YAML, or calls table.
func (a *app) print(format string, value any, table func() error) error {
	switch format {
	case "table", "":
		return table()
	case "json":
		enc := json.NewEncoder(a.out)
		enc.SetIndent("", "  ")
		return enc.Encode(value)
	case "yaml":
		out, err := yaml.Marshal(value)
		if err != nil {
			return fmt.Errorf("encoding as YAML: %w", err)
		}
		_, err = a.out.Write(out)
		return err
	}
	return hint("use -o table, -o json or -o yaml", "unknown output format %q", format)
}

// table writes rows below a header, in columns.
func (a *app) table(header []string, rows [][]string) error {
	w := tabwriter.NewWriter(a.out, 0, 4, 3, ' ', 0)
	fmt.Fprintln(w, strings.Join(header, "\t"))
	for _, r := range rows {
		fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	return w.Flush()
}

// age returns the time since t in kubectl's format.
func age(t metav1.Time) string {
	if t.IsZero() {
		return "-"
	}
	return duration.HumanDuration(time.Since(t.Time))
}

// dash replaces an empty string with "-", so that columns stay readable.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// oneLine shortens a message to one line of at most n runes.
func oneLine(s string, n int) string { return text.OneLine(s, n) }
