package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/runtime/record"
	"github.com/capstan-dev/capstan/runtime/unblock"
)

func TestBlocksAt(t *testing.T) {
	block := func(hook, extension string) record.Block {
		return record.Block{Call: record.Call{Hook: "g/v1/" + hook, Extension: extension}}
	}
	two := []record.Block{block("BeforeClusterUpgrade", "a"), block("BeforeClusterUpgrade", "b")}
	for name, c := range map[string]struct {
		all             []record.Block
		hook, extension string
		want            int
		err             string
	}{
		"all that block":               {two, "BeforeClusterUpgrade", "", 2, ""},
		"written in small letters":     {two, "beforeclusterupgrade", "", 2, ""},
		"of one extension":             {two, "BeforeClusterUpgrade", "b", 1, ""},
		"of one that does not block":   {two, "BeforeClusterUpgrade", "c", 0, "what does: BeforeClusterUpgrade by extension a, "},
		"a hook that does not block":   {two, "BeforeClusterDelete", "", 0, "hook BeforeClusterDelete does not block it; what does: "},
		"a cluster that nothing holds": {nil, "BeforeClusterDelete", "", 0, "no hook blocks it"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := blocksAt(c.all, c.hook, c.extension)
			if len(got) != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func TestUnblockIsRefused(t *testing.T) {
	for want, args := range map[string][]string{
		"needs a reason":         {"hook", "unblock", "blue", "BeforeClusterUpgrade", "--reason", " "},
		"1h0m0s at most":         {"hook", "unblock", "blue", "BeforeClusterUpgrade", "--reason", "x", "--for", "2h"},
		"no management plane":    {"hook", "unblock", "blue", "BeforeClusterUpgrade", "--reason", "x"},
		"accepts 2 arg(s)":       {"hook", "unblock", "blue", "--reason", "x"},
		"more than nothing, and": {"hook", "unblock", "blue", "BeforeClusterUpgrade", "--reason", "x", "--for", "0s"},
	} {
		if code, _, errOut := capstan(t, "", args...); code == 0 || !strings.Contains(errOut, want) {
			t.Errorf("%v: %d %s, want %q", args, code, errOut, want)
		}
	}
}

func TestPassedSince(t *testing.T) {
	at := time.Now()
	passed := record.Call{Time: at, Hook: "g/v1/BeforeClusterUpgrade", Answer: record.Passed}
	if !passedSince([]record.Call{passed}, "BeforeClusterUpgrade", at.Add(-time.Second)) {
		t.Error("it was passed")
	}
	if passedSince([]record.Call{passed}, "BeforeClusterUpgrade", at) || passedSince([]record.Call{passed}, "BeforeClusterDelete", at.Add(-time.Second)) {
		t.Error("that was another time, or another hook")
	}
}

func TestStillBlocked(t *testing.T) {
	calls := []record.Call{{Hook: "g/v1/BeforeClusterUpgrade", Extension: "other", Answer: record.Blocked, Message: "no hosts"}}
	if got := stillBlocked(calls, unblock.Order{Hook: "BeforeClusterUpgrade", Extension: "mine"}); !strings.Contains(got, "extension other blocks, too: no hosts") {
		t.Errorf("got %q", got)
	}
	if got := stillBlocked(calls, unblock.Order{Hook: "BeforeClusterUpgrade"}); strings.Contains(got, "too") {
		t.Errorf("got %q", got)
	}
}

// What is completed is what blocks.
func TestUnblockIsCompleted(t *testing.T) {
	a, _, _ := journal(t)
	cmd := a.hookUnblockCommand()
	root := &cobra.Command{PersistentPreRunE: func(*cobra.Command, []string) error { return nil }}
	root.AddCommand(cmd)
	if got, _ := a.completeBlocked(cmd, []string{"blue"}, ""); len(got) != 1 || got[0] != "BeforeClusterUpgrade" {
		t.Errorf("hooks: %v", got)
	}
	if got, _ := a.completeBlocking(cmd, []string{"blue", "BeforeClusterUpgrade"}, ""); len(got) != 1 || got[0] != "ext" {
		t.Errorf("extensions: %v", got)
	}
	if got, _ := a.completeBlocked(cmd, []string{"green"}, ""); len(got) != 0 {
		t.Errorf("hooks of a cluster that nothing blocks: %v", got)
	}
}

func TestNotPassed(t *testing.T) {
	order := unblock.Order{Hook: "BeforeClusterUpgrade"}
	call := record.Call{Hook: "g/v1/BeforeClusterUpgrade", Answer: record.Blocked}
	if err := notPassed([]record.Call{call}, order); !strings.Contains(err.Error(), "somebody has removed") {
		t.Errorf("while it blocks: %v", err)
	}
	call.Answer = record.Success
	if err := notPassed([]record.Call{call}, order); !strings.Contains(err.Error(), "not needed any more") {
		t.Errorf("when it blocks no longer: %v", err)
	}
}

// changing is an API server on which somebody changes the Cluster before the first write.
type changing struct {
	client.Client
	spec    bool // the spec, not only the status
	patches int
	granted bool
}

func (c *changing) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	if c.patches++; c.patches == 1 {
		return errors.New("conflict")
	}
	c.granted = true
	return nil
}

func (c *changing) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	if c.spec {
		o.SetGeneration(o.GetGeneration() + 1)
	}
	return nil
}

// TestGrant: the permission is for the spec that the administrator has seen.
func TestGrant(t *testing.T) {
	order := unblock.Order{Hook: "BeforeClusterUpgrade", By: "me", Reason: "x", Until: time.Now().Add(time.Minute)}
	for name, spec := range map[string]bool{"the status changes": false, "the spec changes": true} {
		t.Run(name, func(t *testing.T) {
			c := &changing{spec: spec}
			err := grant(t.Context(), c, &clusterv1.Cluster{}, order)
			if c.granted == spec || (err == nil) == spec || err != nil && !strings.Contains(err.Error(), "was changed by somebody") {
				t.Errorf("granted: %t after %d writes, %v", c.granted, c.patches, err)
			}
		})
	}
}
