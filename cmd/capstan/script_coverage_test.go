package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// scriptOf returns the script of a command: cluster_create.txtar for "capstan cluster create".
func scriptOf(cmd *cobra.Command) string {
	name := strings.TrimPrefix(cmd.CommandPath(), "capstan ")
	return strings.ReplaceAll(name, " ", "_") + ".txtar"
}

// eachCommand calls the function do for each command, including hidden ones and those that cobra adds.
func eachCommand(t *testing.T, do func(*cobra.Command)) {
	t.Helper()
	root := (&app{}).rootCommand()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		do(cmd)
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(root)
}

// TestEveryCommandHasAScript requires a script for each command, and a command for each script.
func TestEveryCommandHasAScript(t *testing.T) {
	var commands, scripts []string
	eachCommand(t, func(cmd *cobra.Command) { commands = append(commands, scriptOf(cmd)) })
	files, err := filepath.Glob(filepath.Join("testdata", "script", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		scripts = append(scripts, filepath.Base(file))
	}
	for _, name := range commands {
		if !slices.Contains(scripts, name) {
			t.Errorf("testdata/script/%s is missing, so a command has no test", name)
		}
	}
	for _, name := range scripts {
		if !slices.Contains(commands, name) {
			t.Errorf("testdata/script/%s belongs to no command", name)
		}
	}
}

// TestEveryScriptRunsItsCommand requires that each script compares the help of its command, and makes the command fail
// once.
func TestEveryScriptRunsItsCommand(t *testing.T) {
	eachCommand(t, func(cmd *cobra.Command) {
		data, err := os.ReadFile(filepath.Join("testdata", "script", scriptOf(cmd)))
		if err != nil {
			return // TestEveryCommandHasAScript reports this
		}
		script, _, _ := strings.Cut(string(data), "\n-- ")
		for _, line := range []string{"exec " + cmd.CommandPath() + " --help\n", "! exec " + cmd.CommandPath() + " "} {
			if !strings.Contains(script, line) {
				t.Errorf("%s has no line %q", scriptOf(cmd), line)
			}
		}
	})
}
