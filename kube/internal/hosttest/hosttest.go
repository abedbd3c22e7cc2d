//go:build linux

// Package hosttest runs a package's tests twice, as root in isolated namespaces: once in a user namespace with 65,536
// user and group ids, and once in one with a single id. Local hosts have one of these two numbers of ids. This package
// calls each of the two a level. Only tests import the package.
package hosttest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	levelVariable  = "CAPSTAN_HOST_IDS"    // the number of ids; not set in the process that starts the levels
	reasonVariable = "CAPSTAN_HOST_REASON" // why this level is impossible here
	toolsVariable  = "CAPSTAN_HOST_TOOLS"  // the directory with the programs; if it is not set, Main builds them
	firstID        = 1 << 24               // first id on the machine, if the test runs as root
	limit          = 20 * time.Second
)

// Main is a package's TestMain: it builds programs (a map from name to package directory) and runs all tests at each
// level. It returns the exit code.
func Main(m *testing.M, programs map[string]string) int {
	if os.Getenv(levelVariable) == "" {
		return runLevels(programs)
	}
	if os.Getenv(reasonVariable) == "" {
		if err := prepare(); err != nil {
			fmt.Fprintln(os.Stderr, "preparing the host of the tests:", err)
			return 1
		}
	}
	return m.Run()
}

// Need skips a test, with the reason, at a level that is impossible on this machine.
func Need(t testing.TB) {
	t.Helper()
	if reason := os.Getenv(reasonVariable); reason != "" {
		t.Skip(reason)
	}
}

// OneID reports whether the host has only one id.
func OneID() bool { return os.Getenv(levelVariable) == "1" }

// Suffix returns the ending of benchmark names at this level.
func Suffix() string {
	if OneID() {
		return ", one id"
	}
	return ", all ids"
}

// Tool returns the path of a program that Main built.
func Tool(name string) string { return filepath.Join(os.Getenv(toolsVariable), name) }

func runLevels(programs map[string]string) int {
	if tools := os.Getenv(toolsVariable); tools != "" { // so that a user without Go can run the tests
		return max(runLevel(tools, 65536), runLevel(tools, 1))
	}
	tools, err := os.MkdirTemp("", "capstan-tools-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(tools)
	for name, pkg := range programs {
		build := exec.Command("go", "build", "-ldflags=-s -w", "-o", filepath.Join(tools, name), pkg)
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building %s: %v\n%s", name, err, out)
			return 1
		}
	}
	if err := os.Chmod(tools, 0o755); err != nil { // the host's root is another user here
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return max(runLevel(tools, 65536), runLevel(tools, 1))
}

// runLevel runs all tests in a host with this number of ids.
func runLevel(tools string, size int) int {
	temp, err := os.MkdirTemp("", "capstan-host-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(temp)
	first := firstID
	if os.Getuid() != 0 {
		first = os.Getuid()
	}
	own := &groups{dir: "root's hosts have groups with all ids, those of ordinary users with one id"}
	if (size > 1) == (os.Getuid() == 0) {
		own = makeGroups(temp, first)
	}
	defer own.remove()
	self := func(args ...string) *exec.Cmd {
		c := exec.Command("/proc/self/exe", args...)
		c.Env = append(os.Environ(), levelVariable+"="+strconv.Itoa(size), toolsVariable+"="+tools, "TMPDIR="+temp,
			groupsVariable+"="+own.dir)
		c.SysProcAttr = attributes(first, size)
		return c
	}
	// To find out whether the kernel allows such namespaces, start a process in them that does nothing.
	reason := ""
	try := self("-test.run=^$")
	try.Env = append(try.Env, reasonVariable+"=trying")
	if err := try.Run(); err != nil {
		reason = fmt.Sprintf("the kernel gives this user no namespaces with %d ids: %v", size, err)
	} else if os.Getuid() == 0 {
		if err := os.Chown(temp, first, first); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	// Don't pass on flags that name files of the go command: the host can't use them.
	inside := self(slices.DeleteFunc(slices.Clone(os.Args[1:]), func(arg string) bool {
		return strings.HasPrefix(arg, "-test.testlogfile")
	})...)
	inside.Stdout, inside.Stderr = os.Stdout, os.Stderr
	if reason != "" {
		inside.Env = append(inside.Env, reasonVariable+"="+reason)
		inside.SysProcAttr = nil
	} else {
		closed, err := own.start(inside.SysProcAttr)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer closed()
	}
	if err := inside.Run(); err != nil {
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
			fmt.Fprintln(os.Stderr, err)
		}
		return 1
	}
	return 0
}

func attributes(first, size int) *syscall.SysProcAttr {
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: first, Size: size}}
	return &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC |
			unix.CLONE_NEWUTS,
		UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: size > 1,
		Credential: &syscall.Credential{NoSetGroups: size == 1},
	}
}

// prepare isolates the mounts of the host from the machine, and mounts the host's /proc. This process is the first of
// its PID namespace, so it is the host's PID 1.
func prepare() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	return unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
}

// CheckClean makes the test fail if it leaves mounts or processes behind.
func CheckClean(t testing.TB) {
	t.Helper()
	before := mounts(t)
	t.Cleanup(func() {
		if after := mounts(t); after != before {
			t.Errorf("the mounts after the test differ:\n%s\nthe mounts before it:\n%s", after, before)
		}
		WaitFor(t, "processes to end", func() bool { return processes() == "" }, processes)
	})
}

func mounts(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// processes lists all other processes on the host. The test binary is the host's PID 1, so it must first reap the
// processes that have ended.
func processes() string {
	for {
		if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 || err != nil {
			break
		}
	}
	entries, _ := os.ReadDir("/proc")
	left := ""
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		line, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		left += fmt.Sprintf("%d %q\n", pid, line)
	}
	return left
}

// WaitFor waits until done returns true, and fails the test after a time limit. The failure message includes
// the result of the function state.
func WaitFor(t testing.TB, what string, done func() bool, state func() string) {
	t.Helper()
	for deadline := time.Now().Add(limit); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s: %s", limit, what, state())
		}
	}
}
