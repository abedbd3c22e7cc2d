package local

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// other is an unrelated user of this machine, who does not run the plane.
const other = 5678

// asUser calls the function work on a thread that acts as another user, and returns the function's result.
func asUser(id int, work func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread exits with the goroutine
		for _, call := range [][4]uintptr{
			{syscall.SYS_SETGROUPS, 0, 0, 0},
			{syscall.SYS_SETRESGID, uintptr(id), uintptr(id), uintptr(id)},
			{syscall.SYS_SETRESUID, uintptr(id), uintptr(id), uintptr(id)},
		} {
			if _, _, errno := syscall.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
				result <- fmt.Errorf("becoming user %d: %w", id, errno)
				return
			}
		}
		result <- work()
	}()
	return <-result
}

// TestAnotherUserReachesNothing: a second user of the machine tries what the first one can do with a running dock. Each
// attempt is also made as the first user, for whom it must work.
func TestAnotherUserReachesNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can act as another user")
	}
	w := newWorld(t, steady)
	w.register(inPhase(infrav1.HostOff)...)
	if err := os.Chmod(filepath.Dir(w.Home), 0o755); err != nil { // otherwise this directory alone would keep others out
		t.Fatal(err)
	}
	if err := os.Mkdir(w.Home, 0o755); err != nil { // a careless user made it readable for everybody
		t.Fatal(err)
	}
	if _, err := w.up(limit(t), UpOptions{Hosts: 1}); err != nil {
		t.Fatal(err)
	}
	attempts := map[string]func() error{
		"list the home directory": func() error { _, err := os.ReadDir(w.Home); return err },
		"read the kubeconfig":     func() error { _, err := os.ReadFile(filepath.Join(w.Home, "kubeconfig")); return err },
		"read what the dock prints": func() error {
			_, err := os.ReadFile(filepath.Join(w.Home, "dock", "dock.log"))
			return err
		},
		"hold the lock that up needs": func() error { return opens(filepath.Join(w.Home, "lock"), os.O_RDONLY) },
		"give orders to the dock":     func() error { return connects(filepath.Join(w.Home, "dock", "dock.sock")) },
		"put another program in place": func() error {
			return opens(filepath.Join(w.Binaries, "capstan-dock"), os.O_WRONLY)
		},
	}
	for what, path := range map[string]string{
		"read a process's environment":       "environ",
		"read a process's memory":            "mem",
		"enter a process's network":          "ns/net",
		"enter a process's mounts":           "ns/mnt",
		"see a process's open files":         "fd",
		"walk through a process's root":      "root/.",
		"walk through a process's directory": "cwd/.",
	} {
		attempts[what] = func() error {
			return anyOf(w.Home, func(proc string) error { return opens(proc+path, os.O_RDONLY) })
		}
	}
	attempts["signal a process"] = func() error {
		return anyOf(w.Home, func(proc string) error {
			var pid int
			if _, err := fmt.Sscanf(proc, "/proc/%d/", &pid); err != nil {
				return err
			}
			return unix.Kill(pid, 0)
		})
	}
	for what, try := range attempts {
		if err := try(); err != nil && what != "put another program in place" { // can't overwrite a running program
			t.Errorf("the plane's own user can't %s, so the attempt proves nothing: %v", what, err)
		}
		err := asUser(other, try)
		if !errors.Is(err, syscall.EACCES) && !errors.Is(err, syscall.EPERM) {
			t.Errorf("another user tried to %s: got error %v, want EACCES or EPERM", what, err)
		}
	}
}

// opens opens a file, and closes it.
func opens(path string, flag int) error {
	file, err := os.OpenFile(path, flag, 0)
	if err == nil {
		err = file.Close()
	}
	return err
}

// connects connects to a socket.
func connects(path string) error {
	conn, err := net.Dial("unix", path)
	if err == nil {
		err = conn.Close()
	}
	return err
}

// anyOf tries something on each process that mentions a path. It returns nil if that works on one of them, else one of
// the errors.
func anyOf(path string, try func(proc string) error) error {
	err := errors.New("there is no process")
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, cmdline := range all {
		data, readErr := os.ReadFile(cmdline)
		if readErr != nil || !strings.Contains(string(data), path) {
			continue
		}
		if err = try(strings.TrimSuffix(cmdline, "cmdline")); err == nil {
			return nil
		}
	}
	return err
}
