//go:build linux

package dock_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/dock/cgroup"
)

// limited starts a dock with one host, and skips the test where hosts can't have limits.
func limited(t *testing.T, home string) (*dock.Client, dock.Host, map[string]string) {
	t.Helper()
	c := start(t, home)
	h := ensure(t, c, dock.HostSpec{Name: "host-1"})
	if h.Limits == "" {
		t.Skip("hosts have no limits on this machine:", logOf(home))
	}
	return c, h, groupsOf(t, h)
}

// groupsOf returns the directories of the group of a host's PID 1.
func groupsOf(t *testing.T, h dock.Host) map[string]string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(h.PID), "cgroup"))
	if err != nil {
		t.Fatal(err)
	}
	place, err := cgroup.Find(string(mounts), string(own))
	if err != nil {
		t.Fatal(err)
	}
	return place.Own
}

// startsPods makes a service of the host start a process in a separate control group, as the CRI server does.
const startsPods = `cat > /root/pods.sh <<'END'
for d in /opt/capstan/cgroup/*; do
	mkdir $d/pods $d/pods/one && sh -c 'echo $$ > '$d/pods/one/cgroup.procs && rmdir $d/pods/one || exit 1
done
END
printf '[Service]\nType=oneshot\nExecStart=/bin/sh /root/pods.sh\n' > /etc/systemd/system/pods.service
systemctl start pods`

// TestLimitsOfAHost checks that PID 1 is in a group with limits, that the host can create groups below it, and that no
// group is left after the host has stopped.
func TestLimitsOfAHost(t *testing.T) {
	home := t.TempDir()
	c, h, groups := limited(t, home)
	if h.Limits != "cpu.memory.pids" {
		t.Errorf("the host has the limits %q", h.Limits)
	}
	for controller, dir := range groups {
		if !strings.Contains(dir, "/host-1.1/all/init") {
			t.Errorf("%s: PID 1 is in %s", controller, dir)
		}
	}
	limits := []string{filepath.Join(groups["pids"], "../../pids.max"),
		filepath.Join(groups["memory"], "../../memory.limit_in_bytes")}
	if dir, is := groups[cgroup.Unified]; is {
		limits = []string{filepath.Join(dir, "../../pids.max"), filepath.Join(dir, "../../memory.max")}
	}
	for _, path := range limits {
		limit, err := os.ReadFile(path)
		n, parseErr := strconv.ParseInt(strings.TrimSpace(string(limit)), 10, 64)
		if err != nil || parseErr != nil || n <= 0 || n > 1<<45 {
			t.Errorf("%s of the host is %q, %v", path, limit, err)
		}
	}
	must(t, h, startsPods)
	if err := c.RebootHost(short(t), "host-1"); err != nil {
		t.Fatal(err)
	}
	again := groupsOf(t, hostOf(t, c, "host-1"))
	for controller, dir := range again {
		if !strings.Contains(dir, "/host-1.2/all/init") {
			t.Errorf("%s: after a reboot PID 1 is in %s", controller, dir)
		}
	}
	if err := c.Shutdown(short(t)); err != nil {
		t.Fatal(err)
	}
	for _, dir := range groups {
		if top := filepath.Join(dir, "../../.."); exists(top) {
			t.Errorf("%s is left", top)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestGroupsOfAKilledDock checks that the next dock removes a killed dock's groups, unless systemd has already removed
// them: when the last process of a scope exits, systemd removes the scope and all groups below it.
func TestGroupsOfAKilledDock(t *testing.T) {
	home := t.TempDir()
	c, _, groups := limited(t, home)
	kill(t, outer(t, c))
	if left := nothingLeft(home); left != "" {
		t.Fatalf("left after the end of the dock: %s", left)
	}
	for _, dir := range groups {
		if strings.Contains(dir, ".scope/") && os.Geteuid() != 0 {
			eventually(t, "systemd to remove "+dir, func() bool { return !exists(dir) })
			continue
		}
		old := filepath.Join(dir, "../..") // outside a scope, only the next dock removes it
		if !exists(filepath.Clean(old)) {
			t.Errorf("%s is gone already, so this test can't test its removal", old)
		}
		if err := os.Mkdir(filepath.Join(dir, "../pods"), 0o755); err != nil {
			t.Error(err)
		}
		if err := os.Mkdir(filepath.Join(dir, "../../../host-9.7"), 0o755); err != nil {
			t.Error(err)
		}
	}
	start(t, home)
	for _, dir := range groups {
		if left := filepath.Join(dir, "../../../host-9.7"); exists(left) {
			t.Errorf("%s is left", left)
		}
	}
}

// TestAHostCantRaiseItsLimits checks that root of a host can neither change nor escape its limits.
func TestAHostCantRaiseItsLimits(t *testing.T) {
	_, h, groups := limited(t, t.TempDir())
	file := "limits.txt"
	dir, unified := groups[cgroup.Unified]
	if unified {
		file = "limits-unified.txt"
	}
	before := settings(t, groups)
	refused := func(file string) {
		for name, script := range scripts(t, file) {
			t.Run(name, func(t *testing.T) {
				if out, code := in(t, h, script); code == 0 {
					t.Errorf("%s got through:\n%s", script, out)
				}
			})
		}
	}
	refused(file)
	if unified && owner(t, filepath.Join(dir, "../memory.max")) == owner(t, fmt.Sprintf("/proc/%d", h.PID)) {
		// With one id, root of the host is the dock's user and may write these files. That does no harm, because the group
		// with the host's limits is above them.
		for name, script := range scripts(t, "limits-own-group.txt") {
			if name != "kill all" && name != "freeze all" { // root of a host may stop the host
				t.Run(name, func(t *testing.T) { in(t, h, script) })
			}
		}
	} else if unified {
		refused("limits-own-group.txt")
	}
	if after := settings(t, groups); !maps.Equal(before, after) {
		t.Errorf("the limits of the host were %v and are %v", before, after)
	}
}

// owner returns the user who owns a file.
func owner(t *testing.T, path string) uint32 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Uid
}

// settings returns owner, mode and content of the files that limit a host. groups are the control groups of the host's
// PID 1.
func settings(t *testing.T, groups map[string]string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, dir := range groups {
		for _, name := range []string{"pids.max", "memory.max", "memory.high", "memory.limit_in_bytes", "cpu.weight",
			"cpu.max", "cpu.shares", "cgroup.freeze", "cgroup.subtree_control"} {
			path := filepath.Join(dir, "../..", name)
			data, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			info, statErr := os.Stat(path)
			if err = errors.Join(err, statErr); err != nil {
				t.Fatal(err)
			}
			all[path] = fmt.Sprintf("%d %s %s", info.Sys().(*syscall.Stat_t).Uid, info.Mode(), strings.TrimSpace(string(data)))
		}
	}
	if len(all) < 3 {
		t.Fatalf("too few limits to compare: %v", all)
	}
	return all
}
