package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestUnblockIsRefused(t *testing.T) {
	for want, args := range map[string][]string{
		"needs a reason":        {"hook", "unblock", "blue", "BeforeClusterUpgrade", "--reason", " "},
		"at most 1h0m0s":        {"hook", "unblock", "blue", "BeforeClusterUpgrade", "--reason", "x", "--for", "2h"},
		"no management plane":   {"hook", "unblock", "blue", "BeforeClusterUpgrade", "--reason", "x"},
		"HOOK is missing":       {"hook", "unblock", "blue", "--reason", "x"},
		"must be positive, and": {"hook", "unblock", "blue", "BeforeClusterUpgrade", "--reason", "x", "--for", "0s"},
	} {
		if code, _, errOut := capstan(t, "", args...); code == 0 || !strings.Contains(errOut, want) {
			t.Errorf("%v: got exit code %d and %s, want an error with %q", args, code, errOut, want)
		}
	}
}

// TestUnblockIsCompleted: completion offers the hooks and extensions that block.
func TestUnblockIsCompleted(t *testing.T) {
	a, _, _ := journal(t)
	cmd := a.hookUnblockCommand()
	root := &cobra.Command{PersistentPreRunE: func(*cobra.Command, []string) error { return nil }}
	root.AddCommand(cmd)
	if got, _ := a.completeBlocked(cmd, []string{"blue"}, ""); len(got) != 1 || got[0] != "BeforeClusterUpgrade" {
		t.Errorf("the completed hooks are %v", got)
	}
	if got, _ := a.completeBlocking(cmd, []string{"blue", "BeforeClusterUpgrade"}, ""); len(got) != 1 || got[0] != "ext" {
		t.Errorf("the completed extensions are %v", got)
	}
	if got, _ := a.completeBlocked(cmd, []string{"green"}, ""); len(got) != 0 {
		t.Errorf("the completed hooks of a cluster that no hook blocks are %v", got)
	}
}
