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

// Unified is the name of the only control group of a host with cgroup version 2. With version 1, a host has one control
// group for each controller.
const Unified = "unified"

// unifiedTree is where the control groups of version 2 are mounted.
const unifiedTree = "/sys/fs/cgroup"

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
	inside string // the group in which the host's processes must start; empty in version 1
	made   []string
}

// makeGroups creates control groups for a host. In version 1, they are below those of this process. In version 2, they
// are at the top of the tree, or below the group that systemd delegated to this ordinary user. They belong to the
// machine's user that is mapped to root on the host: owner is its user id and group id.
func makeGroups(temp string, owner int) *groups {
	g := &groups{dir: filepath.Join(temp, "cgroup")}
	err := os.Mkdir(g.dir, 0o755)
	if err == nil {
		if _, missing := os.Stat(unifiedTree + "/cgroup.controllers"); missing == nil {
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

// makeSeparate creates the groups of cgroup version 1: one for each controller.
func (g *groups) makeSeparate(owner int) error {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return err
	}
	for _, controller := range []string{"cpu", "memory", "pids"} {
		_, path, is := strings.Cut(string(own), ":"+controller+":")
		if !is {
			return errors.New("cgroup version 1 has no controller " + controller + " on this machine")
		}
		path, _, _ = strings.Cut(path, "\n")
		if err := g.make(filepath.Join("/sys/fs/cgroup", controller, path), controller, owner, "."); err != nil {
			return err
		}
	}
	return nil
}

// makeUnified creates the group of cgroup version 2. The host's processes start in a group below it, because the host
// can move processes only between groups below its own.
func (g *groups) makeUnified(owner int) error {
	top := unifiedTree
	if os.Getuid() != 0 {
		var err error
		if top, err = enterDelegated(); err != nil {
			return err
		}
	}
	if err := g.make(top, Unified, owner, ".", "cgroup.procs", "cgroup.threads",
		"cgroup.subtree_control"); err != nil {
		return err
	}
	g.inside = filepath.Join(g.made[0], "init")
	if err := os.Mkdir(g.inside, 0o755); err != nil {
		return err
	}
	return enableControllers(g.made[0])
}

// enterDelegated returns the group of this process, which systemd has delegated to its user. The process moves to a
// group below it, because a group with processes can't pass controllers on. systemd removes that group in the end. If
// other processes are in the delegated group, this process returns there.
func enterDelegated() (string, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	_, path, _ := strings.Cut(string(own), "0::")
	path, _, _ = strings.Cut(path, "\n")
	delegated := filepath.Join(unifiedTree, path)
	tests := filepath.Join(delegated, "tests")
	if err := os.Mkdir(tests, 0o755); err != nil {
		return "", err
	}
	err = moveTo(tests)
	if err == nil {
		err = enableControllers(delegated)
	}
	if err != nil {
		return "", errors.Join(err, moveTo(delegated), unix.Rmdir(tests))
	}
	return delegated, nil
}

// moveTo moves this process to a control group.
func moveTo(group string) error {
	return os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte("0"), 0o644)
}

// enableControllers makes groups below a group have limits.
func enableControllers(group string) error {
	return os.WriteFile(filepath.Join(group, "cgroup.subtree_control"), []byte("+cpu +memory +pids"), 0o644)
}

// make creates a control group below parent, and a link to it called name. It gives the listed files of the control
// group to the user id and group id owner.
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

// start makes a process start in the group g.inside, if there is one. The caller must call the returned function after
// the start: it closes the file that refers to the group.
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
