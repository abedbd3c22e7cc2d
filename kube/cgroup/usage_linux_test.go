package cgroup

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestUsage(t *testing.T) {
	const cpu1, memory1, stat1 = "cpu/p/c/cpuacct.usage", "memory/p/c/memory.usage_in_bytes", "memory/p/c/memory.stat"
	const cpu2, memory2, stat2 = "unified/p/c/cpu.stat", "unified/p/c/memory.current", "unified/p/c/memory.stat"
	for name, c := range map[string]struct {
		files     map[string]string
		cpu       time.Duration
		hasCPU    bool
		memory    uint64
		hasMemory bool
	}{
		"version 1": {map[string]string{
			cpu1: "1500000000\n", memory1: "5000\n", stat1: "inactive_file 1\ntotal_inactive_file 2000\n",
		}, 1500 * time.Millisecond, true, 3000, true},
		"version 1 without accounting": {
			map[string]string{"cpu/p/c/cpu.shares": "2\n", memory1: "5000\n", stat1: "total_inactive_file 0\n"},
			0, false, 5000, true,
		},
		"version 2": {map[string]string{
			cpu2: "usage_usec 1500\nuser_usec 1\n", memory2: "5000\n", stat2: "anon 1\ninactive_file 6000\n",
		}, 1500 * time.Microsecond, true, 0, true},
		"the container has ended": {},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			tree := &Tree{pods: map[string]string{}}
			for file, text := range c.files {
				path := filepath.Join(dir, file)
				controller := filepath.Dir(filepath.Dir(filepath.Dir(path)))
				tree.pods[filepath.Base(controller)] = controller
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got, ok := tree.CPU("p", "c"); got != c.cpu || ok != c.hasCPU {
				t.Errorf("got the processor time %s, %t; want %s, %t", got, ok, c.cpu, c.hasCPU)
			}
			if got, ok := tree.Memory("p", "c"); got != c.memory || ok != c.hasMemory {
				t.Errorf("got the memory %d, %t; want %d, %t", got, ok, c.memory, c.hasMemory)
			}
		})
	}
	var none *Tree
	if _, ok := none.CPU("p", "c"); ok {
		t.Error("a nil tree counts processor time")
	}
}
