package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestTheReferenceIsThatOfTheCommands compares docs/reference/cli.md with the commands. With UPDATE=1 in the
// environment, as in make generate, it writes the page.
func TestTheReferenceIsThatOfTheCommands(t *testing.T) {
	const file = "../../docs/reference/cli.md"
	root := (&app{}).rootCommand()
	root.InitDefaultCompletionCmd()
	want := reference(root)
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil || string(got) != want {
		t.Errorf("docs/reference/cli.md differs from the commands (%v): run make generate", err)
	}
}

// reference returns the page of all commands that are not hidden.
func reference(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# Commands of capstan\n\n" +
		"Made by `make generate` from the commands; `capstan COMMAND --help` prints the same.\n")
	b.WriteString("\n| Command | Does |\n|---|---|\n")
	visible(root, func(cmd *cobra.Command) {
		if cmd.Runnable() {
			fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", cmd.CommandPath(), anchor(cmd), cell(cmd.Short))
		}
	})
	b.WriteString("\nEvery command has these flags:\n\n")
	flags(&b, root.PersistentFlags())
	visible(root, func(cmd *cobra.Command) {
		if !cmd.Runnable() && !cmd.HasLocalFlags() {
			return
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", cmd.CommandPath(), indented(cmp.Or(cmd.Long, cmd.Short)))
		if cmd.Runnable() {
			fmt.Fprintf(&b, "\nUsage: `%s`\n", cmd.UseLine())
		}
		if cmd.Example != "" {
			fmt.Fprintf(&b, "\n```\n%s\n```\n", strings.Trim(cmd.Example, "\n"))
		}
		if local := cmd.LocalFlags(); cmd != root && local.HasAvailableFlags() {
			b.WriteString("\n")
			flags(&b, local)
		}
	})
	return b.String()
}

// visible visits a command and those below it, without hidden ones.
func visible(cmd *cobra.Command, visit func(*cobra.Command)) {
	if cmd.Hidden {
		return
	}
	visit(cmd)
	for _, c := range cmd.Commands() {
		visible(c, visit)
	}
}

func flags(b *strings.Builder, set *pflag.FlagSet) {
	b.WriteString("| Flag | Is |\n|---|---|\n")
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name, usage := pflag.UnquoteUsage(f)
		text := "--" + f.Name
		if f.Shorthand != "" {
			text = "-" + f.Shorthand + ", " + text
		}
		if name != "" {
			text += " " + name
		}
		switch f.DefValue {
		case "", "false", "0", "0s", "[]":
		default:
			usage += " (default `" + f.DefValue + "`)"
		}
		fmt.Fprintf(b, "| `%s` | %s |\n", text, cell(usage))
	})
}

// indented returns the help text of a command for a page: indented parts become code blocks, separate from their
// paragraph.
func indented(text string) string {
	var out []string
	code := false
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		is := strings.HasPrefix(line, "  ")
		if is != code {
			if len(out) > 0 && out[len(out)-1] != "" {
				out = append(out, "")
			}
			code = is && line != ""
		}
		if is {
			line = "  " + line
		} else {
			line = escaped(line)
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// cell returns a text for one table cell.
func cell(text string) string {
	return strings.ReplaceAll(escaped(strings.Join(strings.Fields(text), " ")), "|", `\|`)
}

// escaped keeps Markdown from treating a text as HTML or emphasis.
func escaped(text string) string {
	return strings.NewReplacer("<", "&lt;", "*", `\*`).Replace(text)
}

// anchor returns the link target of a command's heading.
func anchor(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }
