package main

import (
	"bytes"
	"testing"
)

// TestOtherCommandsExitWithOne: commands that do not judge have exit code 1 for an error.
func TestOtherCommandsExitWithOne(t *testing.T) {
	for _, args := range [][]string{{"hook", "list", "--nosuch"}, {"hook", "call"}, {"nosuch"}} {
		if code, _, errOut := capstan(t, "", args...); code != 1 {
			t.Errorf("%v: the exit code is %d, want 1: %s", args, code, errOut)
		}
	}
}

// TestJudgingCommandsExitWithTwo: for commands that judge, exit code 2 means that something could not be judged.
func TestJudgingCommandsExitWithTwo(t *testing.T) {
	for name, args := range map[string][]string{
		"verify of a path that does not exist":       {"verify", "nosuch"},
		"verify with a flag that does not exist":     {"verify", "--nosuch"},
		"hook lint of a package that does not exist": {"hook", "lint", "./nosuch", "./nosuch"},
		"hook lint with a flag that does not exist":  {"hook", "lint", "--nosuch"},
		"hook preflight of a missing file": {"hook", "preflight", "--from", "v1.12.0", "--to", "v1.13.4", "-f",
			"nosuch.yaml"},
		"hook lint in a format that does not exist":      {"hook", "lint", "./nosuch", "-o", "yaml"},
		"hook preflight in a format that does not exist": {"hook", "preflight", "--from", "v1", "--to", "v2", "-o", "yaml"},
		"hook test without an argument":                  {"hook", "test"},
		"hook test with too many arguments":              {"hook", "test", "a", "b"},
		"hook lint without an argument":                  {"hook", "lint"},
		"hook lint with too many arguments":              {"hook", "lint", "a", "b", "c"},
		"hook preflight with too many arguments":         {"hook", "preflight", "--from", "v1", "--to", "v2", "x"},
		"hook preflight without its flags":               {"hook", "preflight"},
		"hook test in a format that does not exist":      {"hook", "test", "https://127.0.0.1:1", "-o", "nosuch"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("CAPSTAN_HOME", t.TempDir())
			var out, errOut bytes.Buffer
			if code := run("capstan", args, bytes.NewReader(nil), &out, &errOut); code != 2 {
				t.Errorf("the exit code is %d, want 2: %s", code, errOut.String())
			}
		})
	}
}
