package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// positional is a positional argument of a command, as named in its Use line.
type positional struct {
	name     string
	optional bool // [NAME]
	repeated bool // NAME...
}

// positionals parses the arguments in a Use line such as "restore CLUSTER [BACKUP]", up to the first flag. Pure.
func positionals(use string) []positional {
	var all []positional
	for _, word := range strings.Fields(use)[1:] {
		if strings.HasPrefix(word, "-") {
			break
		}
		p := positional{name: word}
		if p.name, p.repeated = strings.CutSuffix(p.name, "..."); strings.HasPrefix(p.name, "[") {
			p.name, p.optional = strings.TrimSuffix(p.name[1:], "]"), true
		}
		all = append(all, p)
	}
	return all
}

// checkArguments installs the check of positional arguments for a command and all commands below it. The Use line of a
// command is the only place that defines its arguments.
func checkArguments(cmd *cobra.Command) {
	if cmd.Runnable() && !cmd.DisableFlagParsing {
		cmd.Args = arguments
	}
	for _, c := range cmd.Commands() {
		checkArguments(c)
	}
}

// arguments returns an error if an argument is missing or superfluous.
func arguments(cmd *cobra.Command, args []string) error {
	var required []string
	limit := 0
	for _, p := range positionals(cmd.Use) {
		if !p.optional {
			required = append(required, p.name)
		}
		if limit++; p.repeated {
			limit = len(args) + 1
		}
	}
	_, usage, _ := strings.Cut(cmd.Use, " ")
	usage = strings.TrimSpace(cmd.CommandPath() + " " + usage)
	switch {
	case len(args) < len(required):
		return hint(exampleOf(cmd), "%s missing: %s", are(required[len(args):]), usage)
	case len(args) > limit && limit == 0:
		return hint("see: "+cmd.CommandPath()+" --help", "%s too much: %s takes no arguments",
			are(quoted(args)), cmd.CommandPath())
	case len(args) > limit:
		return hint(exampleOf(cmd), "%s too much: %s", are(quoted(args[limit:])), usage)
	}
	return nil
}

// exampleOf returns advice that contains the first example of a command.
func exampleOf(cmd *cobra.Command) string {
	example, _, _ := strings.Cut(strings.TrimSpace(cmd.Example), "\n")
	if example == "" {
		return "see: " + cmd.CommandPath() + " --help"
	}
	return "for example: " + example
}

func quoted(words []string) []string {
	all := make([]string, 0, len(words))
	for _, w := range words {
		all = append(all, `"`+w+`"`)
	}
	return all
}

// are joins words with a verb: "A is", "A and B are". There must be at least one word.
func are(words []string) string {
	if last := len(words) - 1; last > 0 {
		return strings.Join(words[:last], ", ") + " and " + words[last] + " are"
	}
	return words[0] + " is"
}

// misspelled returns an error for an unknown word after a group of commands. Cobra checks this only for the root. For
// other groups, cobra prints help as if nothing were wrong.
func misspelled(root *cobra.Command, args []string) error {
	cmd, rest, err := root.Find(args)
	if err != nil || cmd == root || cmd.Runnable() || !cmd.HasSubCommands() {
		return nil
	}
	if cmd.ParseFlags(rest) != nil || cmd.Flags().NArg() == 0 {
		return nil
	}
	word := cmd.Flags().Arg(0)
	advice := "see: " + cmd.CommandPath() + " --help"
	if near := cmd.SuggestionsFor(word); len(near) > 0 {
		advice = "did you mean: " + cmd.CommandPath() + " " + near[0]
	}
	return hint(advice, "unknown command %q for %q", word, cmd.CommandPath())
}
