//go:build linux

package hosttest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const groupsVariable = "CAPSTAN_HOST_GROUPS" // the directory with the control groups, or why there are none

// Unified names the one control group of version 2, where version 1 has one for each controller.
const Unified = "unified"

// GroupsIfAny returns the directory with the host's part of the control groups, as a dock provides it to its hosts, or
// a path that does not exist.
func GroupsIfAny() string {
	if dir := os.Getenv(groupsVariable); filepath.IsAbs(dir) {
		return dir
	}
	return "/no/control/groups"
}

// NeedGroups skips a test, with the reason, if the host has no control groups.
func NeedGroups(t testing.TB) {
	t.Helper()
	if dir := os.Getenv(groupsVariable); !filepath.IsAbs(dir) {
		t.Skip("no control groups: " + dir)
	}
}

// groups are the control groups of a host.
type groups struct {
	dir    string // directory with links to the groups, or the reason why there are none
	inside string // where the host's processes must start, if that matters
	made   []string
}

// makeGroups creates control groups below those of this process, or at the top of the version 2 tree, and gives them to
// a host whose root has the id owner.
func makeGroups(temp string, owner int) *groups {
	g := &groups{dir: filepath.Join(temp, "cgroup")}
	err := os.Mkdir(g.dir, 0o755)
	if err == nil {
		if _, missing := os.Stat("/sys/fs/cgroup/cgroup.controllers"); missing == nil {
			err = g.makeUnified(owner)
		} else {
			err = g.makeSeparate(owner)
		}
	}
	if err != nil {
		g.dir = err.Error()
	}
	return g
}

// makeSeparate creates the groups of version 1.
func (g *groups) makeSeparate(owner int) error {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return err
	}
	for _, controller := range []string{"cpu", "memory", "pids"} {
		_, path, is := strings.Cut(string(own), ":"+controller+":")
		if !is {
			return errors.New("version 1 has no controller " + controller + " here")
		}
		path, _, _ = strings.Cut(path, "\n")
		if err := g.make(filepath.Join("/sys/fs/cgroup", controller, path), controller, owner, "."); err != nil {
			return err
		}
	}
	return nil
}

// makeUnified creates the group of version 2. The host's processes start in a group below it, because the host can move
// processes only between groups below its own.
func (g *groups) makeUnified(owner int) error {
	if err := g.make("/sys/fs/cgroup", Unified, owner, ".", "cgroup.procs", "cgroup.threads",
		"cgroup.subtree_control"); err != nil {
		return err
	}
	g.inside = filepath.Join(g.made[0], "init")
	if err := os.Mkdir(g.inside, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(g.made[0], "cgroup.subtree_control"), []byte("+cpu +memory +pids"), 0o644)
}

// make creates a group, makes the host the owner of these files in it, and creates a link to the group.
func (g *groups) make(parent, name string, owner int, files ...string) error {
	group := filepath.Join(parent, "capstan-test-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(group, 0o755); err != nil {
		return err
	}
	g.made = append(g.made, group)
	for _, file := range files {
		if err := os.Chown(filepath.Join(group, file), owner, owner); err != nil {
			return err
		}
	}
	return os.Symlink(group, filepath.Join(g.dir, name))
}

// start makes a process start in the group in which the host's processes must start. It returns a function that closes
// the file needed for that.
func (g *groups) start(attr *syscall.SysProcAttr) (closed func(), err error) {
	if g.inside == "" {
		return func() {}, nil
	}
	file, err := os.Open(g.inside)
	if err != nil {
		return nil, err
	}
	attr.UseCgroupFD, attr.CgroupFD = true, int(file.Fd())
	return func() { file.Close() }, nil
}

// remove removes the groups, and reports any that are in use.
func (g *groups) remove() {
	for _, group := range g.made {
		for _, below := range []string{"pods", "init", ""} {
			if err := unix.Rmdir(filepath.Join(group, below)); err != nil && err != unix.ENOENT {
				fmt.Fprintf(os.Stderr, "control group %s is left: %v\n", filepath.Join(group, below), err)
			}
		}
	}
}
