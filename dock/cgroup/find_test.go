package cgroup

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

const hybrid = `24 1 0:20 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
25 24 0:21 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
26 24 0:22 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
27 24 0:23 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
28 24 0:24 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
`

const unified = "24 1 0:20 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"

func TestFind(t *testing.T) {
	container := strings.ReplaceAll(hybrid, " / /sys/fs/cgroup/", " /docker/1 /sys/fs/cgroup/")
	for name, c := range map[string]struct{ mounts, own, want string }{
		"version 1": {
			hybrid, "4:memory:/user/a\n3:pids:/\n2:cpu,cpuacct:/b:c\n0::/\n",
			"cpu=/sys/fs/cgroup/cpu,cpuacct/b:c memory=/sys/fs/cgroup/memory/user/a pids=/sys/fs/cgroup/pids",
		},
		"version 1 in a container": {
			container, "4:memory:/docker/1\n3:pids:/docker/1/x\n2:cpu,cpuacct:/docker/1\n",
			"cpu=/sys/fs/cgroup/cpu,cpuacct memory=/sys/fs/cgroup/memory pids=/sys/fs/cgroup/pids/x",
		},
		"version 2": {
			unified, "0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-1.scope\n",
			"unified=/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/run-1.scope top=/sys/fs/cgroup",
		},
		"version 2 in a container": {unified, "0::/\n", "unified=/sys/fs/cgroup top=/sys/fs/cgroup"},
		"a group that the mount does not show": {
			unified, "0::/../other\n", "unified=/sys/fs/cgroup top=/sys/fs/cgroup",
		},
		"only some controllers of version 1": {
			hybrid, "4:memory:/\n3:pids:/\n", "only some of the controllers cpu, memory and pids are mounted as version 1",
		},
		"no control groups": {"1 0 8:1 / / rw - ext4 /dev/sda rw\n", "0::/\n", "no control groups are mounted"},
		"empty files":       {"", "", "no control groups are mounted"},
	} {
		t.Run(name, func(t *testing.T) {
			place, err := Find(c.mounts, c.own)
			var got []string
			for _, controller := range slices.Sorted(maps.Keys(place.Own)) {
				got = append(got, controller+"="+place.Own[controller])
			}
			if place.Top != "" {
				got = append(got, "top="+place.Top)
			}
			if err != nil {
				got = []string{err.Error()}
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %q, want %q", strings.Join(got, " "), c.want)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	for controller, want := range map[string]string{
		"cpu":    "[]",
		"memory": "[{memory.limit_in_bytes 1000}]",
		"pids":   "[{pids.max 50}]",
		Unified:  "[{memory.max 1000} {pids.max 50}]",
	} {
		if got := fmt.Sprint(limits(controller, 1000, 50)); got != want {
			t.Errorf("%s: got %s, want %s", controller, got, want)
		}
	}
	if got := fmt.Sprint(limits("pids", 1000, 0)); got != "[]" {
		t.Errorf("without a limit on processes: %s", got)
	}
}
