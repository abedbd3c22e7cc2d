package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestShown(t *testing.T) {
	for name, c := range map[string]struct {
		files []string // the files that exist
		want  string
	}{
		"version 1": {
			[]string{"cpu/c/cpu.shares", "memory/c/memory.stat", "pids/c/pids.max"},
			"[{cpu/p/c [cpu]} {memory/p/c [memory]} {pids/p/c [pids]}]",
		},
		"version 1 with cpuacct": {
			[]string{"cpu/c/cpuacct.usage", "memory/c/memory.stat", "pids/c/pids.max"},
			"[{cpu/p/c [cpu,cpuacct cpu cpuacct]} {memory/p/c [memory]} {pids/p/c [pids]}]",
		},
		"version 2": {[]string{"unified/c/cpu.max"}, "[{unified/p/c []}]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			tree := &Tree{pods: map[string]string{}}
			for _, file := range c.files {
				controller := filepath.Dir(filepath.Dir(file))
				tree.pods[controller] = controller
				dir := filepath.Join(controller, "p", "c")
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, filepath.Base(file)), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := fmt.Sprint(tree.Shown("p", "c")); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
	var none *Tree
	if len(none.Shown("p", "c")) > 0 || none.SetPod("p", Limits{Shares: 5}) != nil {
		t.Error("a nil tree shows groups, or fails to set limits")
	}
}
