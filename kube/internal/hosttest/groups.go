//go:build linux

package hosttest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const groupsVariable = "CAPSTAN_HOST_GROUPS" // the directory with the control groups, or why there are none

// GroupsIfAny returns the directory with the host's part of the control groups, as a dock provides it to its hosts, or
// a path that does not exist.
func GroupsIfAny() string {
	if dir := os.Getenv(groupsVariable); filepath.IsAbs(dir) {
		return dir
	}
	return "/no/control/groups"
}

// NeedGroups skips a test where the host has no control groups, with the reason.
func NeedGroups(t testing.TB) {
	t.Helper()
	if dir := os.Getenv(groupsVariable); !filepath.IsAbs(dir) {
		t.Skip("no control groups: " + dir)
	}
}

// makeGroups creates control groups of version 1 below those of this process and gives them to a host whose root is
// owner. It returns a directory with links to them, or the reason why there are none.
func makeGroups(temp string, owner int) (dir string, remove func()) {
	dir = filepath.Join(temp, "cgroup")
	var made []string
	remove = func() {
		for _, group := range made {
			for _, below := range []string{"pods", ""} {
				if err := unix.Rmdir(filepath.Join(group, below)); err != nil && err != unix.ENOENT {
					fmt.Fprintf(os.Stderr, "control group %s is left: %v\n", filepath.Join(group, below), err)
				}
			}
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err.Error(), remove
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return err.Error(), remove
	}
	for _, controller := range []string{"cpu", "memory", "pids"} {
		_, path, is := strings.Cut(string(own), ":"+controller+":")
		if !is {
			return "version 1 has no controller " + controller + " here", remove
		}
		path, _, _ = strings.Cut(path, "\n")
		group := filepath.Join("/sys/fs/cgroup", controller, path, "capstan-test-"+strconv.Itoa(os.Getpid()))
		if err := os.Mkdir(group, 0o755); err != nil {
			return err.Error(), remove
		}
		made = append(made, group)
		if err := os.Chown(group, owner, owner); err != nil {
			return err.Error(), remove
		}
		if err := os.Symlink(group, filepath.Join(dir, controller)); err != nil {
			return err.Error(), remove
		}
	}
	return dir, remove
}
