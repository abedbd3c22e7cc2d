package cgroup

import (
	"fmt"
	"strings"
	"testing"
)

func TestPlan(t *testing.T) {
	all := Limits{Shares: 512, Quota: 50000, Period: 100000, Memory: 1 << 20, Processes: 10}
	for name, c := range map[string]struct {
		controller string
		limits     Limits
		want       string
	}{
		"processors": {"cpu", all, "cpu.shares=512 cpu.cfs_period_us=100000 cpu.cfs_quota_us=50000"},
		"memory": {
			"memory", all,
			"memory.memsw.limit_in_bytes=1048576? memory.limit_in_bytes=1048576 memory.memsw.limit_in_bytes=1048576?",
		},
		"processes": {"pids", all, "pids.max=10"},
		"version 2": {
			unified, all,
			"cpu.weight=20 cpu.max=50000 100000 memory.max=1048576 memory.swap.max=0? memory.oom.group=1? pids.max=10",
		},
		"no limits in version 1": {"memory", Limits{}, ""},
		"no limits in version 2": {unified, Limits{}, ""},
		"too few shares":         {"cpu", Limits{Shares: 1}, "cpu.shares=2"},
		"minimum in version 2":   {unified, Limits{Shares: 2}, "cpu.weight=1"},
		"too many shares":        {unified, Limits{Shares: 1 << 40}, "cpu.weight=10000"},
		"no quota":               {"cpu", Limits{Quota: -1, Period: 100000}, "cpu.cfs_period_us=100000 cpu.cfs_quota_us=-1"},
		"no quota in version 2":  {unified, Limits{Quota: -1}, "cpu.max=max 100000"},
		"no limit of processes":  {"pids", Limits{Processes: -1}, "pids.max=max"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, s := range plan(c.controller, c.limits) {
				line := fmt.Sprintf("%s=%s", s.file, s.value)
				if s.optional {
					line += "?"
				}
				got = append(got, line)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %q, want %q", strings.Join(got, " "), c.want)
			}
		})
	}
}

func TestCount(t *testing.T) {
	text := "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"
	if n := count(text, "oom_kill"); n != 3 {
		t.Errorf("got %d", n)
	}
	if n := count("", "oom_kill"); n != 0 {
		t.Errorf("an empty file: got %d", n)
	}
}

// TestNoTree checks that nothing is created on a host without control groups.
func TestNoTree(t *testing.T) {
	var none *Tree
	dirs, err := none.MakeContainer("pod", "container", Limits{Memory: 1})
	if len(dirs) > 0 || err != nil || none.MakePod("pod", Limits{}) != nil || none.RemovePod("pod") != nil ||
		none.Killed("pod", "container") || none.Names() != "" {
		t.Errorf("a method of a nil tree did something: MakeContainer returned %q, %v", dirs, err)
	}
	if _, err := Open(t.TempDir()); err == nil {
		t.Error("opened a tree in an empty directory")
	}
}
