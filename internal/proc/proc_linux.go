// Package proc finds and stops processes by their properties instead of remembered process ids, which the kernel
// reuses.
package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/capstan-dev/capstan/internal/backoff"
)

// Process is a process in this PID namespace. /proc may show an outer namespace, as in a local host of an unprivileged
// user.
type Process struct {
	// PID is the process id in this PID namespace, for sending signals.
	PID int
	// Session is the session id in this PID namespace.
	Session int
	// Name is the name of the program, at most 15 characters.
	Name string

	dir string // its directory in /proc
}

// List returns the processes in this PID namespace, except this process, zombies and kernel threads.
func List() ([]Process, error) {
	own, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w; is /proc mounted?", err)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var list []Process
	for _, entry := range entries {
		if _, err := strconv.Atoi(entry.Name()); err != nil {
			continue
		}
		dir := filepath.Join("/proc", entry.Name())
		if ns, err := os.Readlink(dir + "/ns/pid"); err != nil || ns != own {
			continue // in another namespace, or gone
		}
		if p, ok := read(dir); ok && p.PID != os.Getpid() {
			list = append(list, p)
		}
	}
	return list, nil
}

// read returns the process of a directory in /proc. It returns false if the process is gone, a zombie or a kernel
// thread.
func read(dir string) (Process, bool) {
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return Process{}, false
	}
	p := Process{dir: dir}
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(line, ":")
		fields := strings.Fields(value)
		if len(fields) == 0 {
			continue
		}
		switch key {
		case "Name":
			p.Name = strings.TrimSpace(value)
		case "State":
			if fields[0] == "Z" || fields[0] == "X" {
				return Process{}, false
			}
		case "Kthread":
			if fields[0] == "1" {
				return Process{}, false
			}
		case "NSpid": // from the outermost namespace to the process's own, which is ours
			p.PID, _ = strconv.Atoi(fields[len(fields)-1])
		case "NSsid":
			p.Session, _ = strconv.Atoi(fields[len(fields)-1])
		}
	}
	return p, p.PID > 0
}

// Exe returns the path of the executable, or "" if access to the process is denied.
func (p Process) Exe() string {
	exe, _ := os.Readlink(p.dir + "/exe")
	return strings.TrimSuffix(exe, " (deleted)")
}

// Env returns the environment that the process was started with, as "NAME=value" entries. It is empty for a moment
// while the process replaces its program (execve).
func (p Process) Env() ([]string, error) {
	data, err := os.ReadFile(p.dir + "/environ")
	if err != nil {
		return nil, fmt.Errorf("reading the environment of process %d: %w", p.PID, err)
	}
	if len(data) == 0 {
		return nil, nil
	}
	return strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00"), nil
}

// HasEnv reports whether the process was started with the variable "NAME=value".
func (p Process) HasEnv(variable string) bool {
	env, err := p.Env()
	return err == nil && slices.Contains(env, variable)
}

// InCgroup reports whether the path of one of the process's control groups contains text.
func (p Process) InCgroup(text string) bool {
	data, err := os.ReadFile(p.dir + "/cgroup")
	return err == nil && bytes.Contains(data, []byte(text))
}

// Select returns the processes that match.
func Select(match func(Process) bool) ([]Process, error) {
	list, err := List()
	if err != nil {
		return nil, err
	}
	var selected []Process
	for _, p := range list {
		if match(p) {
			selected = append(selected, p)
		}
	}
	return selected, nil
}

// End stops all matching processes, even those that start in the meantime. It sends SIGTERM, then SIGKILL after grace.
// After limit it returns those still running, with an error.
func End(ctx context.Context, match func(Process) bool, grace, limit time.Duration) ([]Process, error) {
	began := time.Now()
	asked := map[int]bool{}
	pauses := backoff.Backoff{First: 5 * time.Millisecond, Max: 200 * time.Millisecond}
	for {
		left, err := Select(match)
		if err != nil {
			return nil, err
		}
		if len(left) == 0 {
			return nil, nil
		}
		if time.Since(began) > limit {
			return left, fmt.Errorf("ending %s: still there after %s", left[0].Name, limit)
		}
		for _, p := range left {
			switch {
			case time.Since(began) >= grace:
				err = syscall.Kill(p.PID, syscall.SIGKILL)
			case !asked[p.PID]:
				asked[p.PID] = true
				err = syscall.Kill(p.PID, syscall.SIGTERM)
			}
			if err != nil && !errors.Is(err, syscall.ESRCH) {
				return left, fmt.Errorf("ending %s: %w", p.Name, err)
			}
		}
		if err := pauses.Wait(ctx); err != nil {
			return left, err
		}
	}
}
