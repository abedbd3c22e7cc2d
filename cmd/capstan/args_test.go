package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	hints "github.com/capstan-dev/capstan/internal/hint"
)

func TestPositionals(t *testing.T) {
	for use, want := range map[string][]positional{
		"up":                              nil,
		"create NAME":                     {{name: "NAME"}},
		"restore CLUSTER [BACKUP]":        {{name: "CLUSTER"}, {name: "BACKUP", optional: true}},
		"lint [MODULE[@VERSION]] PACKAGE": {{name: "MODULE[@VERSION]", optional: true}, {name: "PACKAGE"}},
		"pause KIND/NAME...":              {{name: "KIND/NAME", repeated: true}},
		"preflight --from A --to B":       nil,
	} {
		if got := positionals(use); !slices.Equal(got, want) {
			t.Errorf("the arguments in %q are %v, want %v", use, got, want)
		}
	}
}

func TestArguments(t *testing.T) {
	for line, want := range map[string]string{
		"create NAME":                         "NAME is missing: capstan create NAME",
		"create NAME: a":                      "",
		"create NAME: a b":                    `"b" is too much: capstan create NAME`,
		"unblock CLUSTER HOOK":                "CLUSTER and HOOK are missing: capstan unblock CLUSTER HOOK",
		"unblock CLUSTER HOOK: a":             "HOOK is missing: capstan unblock CLUSTER HOOK",
		"unblock CLUSTER HOOK: a b c d":       `"c" and "d" are too much: capstan unblock CLUSTER HOOK`,
		"lint [MODULE[@VERSION]] PACKAGE":     "PACKAGE is missing: capstan lint [MODULE[@VERSION]] PACKAGE",
		"lint [MODULE[@VERSION]] PACKAGE: a":  "",
		"list":                                "",
		"list: a":                             `"a" is too much: capstan list takes no arguments`,
		"pause KIND/NAME...":                  "KIND/NAME is missing: capstan pause KIND/NAME...",
		"pause KIND/NAME...: a b c":           "",
		"preflight --from A --to B: x":        `"x" is too much: capstan preflight takes no arguments`,
		"convert [FILE]":                      "",
		"convert [FILE]: a b":                 `"b" is too much: capstan convert [FILE]`,
		"three A B C: 1":                      "B and C are missing: capstan three A B C",
		"three A B C":                         "A, B and C are missing: capstan three A B C",
		"three A B C: one two three four end": `"four" and "end" are too much: capstan three A B C`,
	} {
		use, args, _ := strings.Cut(line, ":")
		cmd := &cobra.Command{Use: use}
		(&cobra.Command{Use: "capstan"}).AddCommand(cmd)
		got := ""
		if err := arguments(cmd, strings.Fields(args)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: got error %q, want %q", line, got, want)
		}
	}
}

// TestMisspelled: a word that is not a command of its group is an error, wherever the group's flags are.
func TestMisspelled(t *testing.T) {
	for line, want := range map[string]string{
		"cluster creat":                    `unknown command "creat" for "capstan cluster": did you mean: capstan cluster create`,
		"-n other cluster -n blue creat x": `unknown command "creat" for "capstan cluster": did you mean: capstan cluster create`,
		"clusters creat":                   `unknown command "creat" for "capstan cluster": did you mean: capstan cluster create`,
		"backup zzzzzz":                    `unknown command "zzzzzz" for "capstan backup": see: capstan backup --help`,
		"clusterctl alpha rollout resum":   `unknown command "resum" for "capstan clusterctl alpha rollout": did you mean: capstan clusterctl alpha rollout resume`,
		"cluster":                          "",
		"cluster --help":                   "",
		"cluster create --nosuch":          "",
		"cluster --nosuch creat":           "",
		"cluster create creat":             "",
		"kubectl get nodes":                "",
		"upp":                              "",
		"":                                 "",
	} {
		got := ""
		if err := misspelled((&app{}).rootCommand(), strings.Fields(line)); err != nil {
			got = err.Error() + ": " + hints.Of(err)
		}
		if got != want {
			t.Errorf("%q: got error %q, want %q", line, got, want)
		}
	}
}

// TestExamples: the error for a missing argument shows an example, so each command with arguments has an example.
func TestExamples(t *testing.T) {
	eachCommand(t, func(cmd *cobra.Command) {
		if cmd.Args == nil || cmd.DisableFlagParsing {
			return
		}
		needs := slices.ContainsFunc(positionals(cmd.Use), func(p positional) bool { return !p.optional })
		if needs && !strings.HasPrefix(strings.TrimSpace(cmd.Example), cmd.CommandPath()+" ") {
			t.Errorf("%s takes arguments, but its first example is %q", cmd.CommandPath(), cmd.Example)
		}
	})
}
