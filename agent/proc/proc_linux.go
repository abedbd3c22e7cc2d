// Package proc finds and ends processes by what they are, not by remembered process ids, which the kernel gives away again.
package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is a process of this PID namespace. /proc may show an outer namespace, as in a local host of an unprivileged user.
type Process struct {
	// PID is the process id in this PID namespace, to send signals to.
	PID int
	// Name is the name of the program, at most 15 characters.
	Name string
	// Exe is the path of the executable; empty for kernel threads and for processes that may not be looked at.
	Exe string

	dir string // its folder in /proc
}

// List returns the processes of this PID namespace, without this process and without zombies.
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
			continue // of another namespace, or gone
		}
		if p, ok := read(dir); ok && p.PID != os.Getpid() {
			list = append(list, p)
		}
	}
	return list, nil
}

// read returns the process of a folder in /proc; false if it is gone or a zombie.
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
		case "NSpid": // from the outermost namespace to the process's own, which is ours
			p.PID, _ = strconv.Atoi(fields[len(fields)-1])
		}
	}
	p.Exe, _ = os.Readlink(dir + "/exe")
	p.Exe = strings.TrimSuffix(p.Exe, " (deleted)")
	return p, p.PID > 0
}

// MarkVariable is the environment variable that marks what commands of bootstrap data start; package command sets it.
const MarkVariable = "CAPSTAN_RUN"

// Marked reports whether a command of bootstrap data started the process, directly or not.
func (p Process) Marked() bool {
	return p.anyEnv(func(entry []byte) bool { return bytes.HasPrefix(entry, []byte(MarkVariable+"=")) })
}

// HasEnv reports whether the process was started with the variable "NAME=value".
func (p Process) HasEnv(variable string) bool {
	return p.anyEnv(func(entry []byte) bool { return string(entry) == variable })
}

func (p Process) anyEnv(match func(entry []byte) bool) bool {
	data, err := os.ReadFile(p.dir + "/environ")
	if err != nil {
		return false
	}
	for entry := range bytes.SplitSeq(data, []byte{0}) {
		if match(entry) {
			return true
		}
	}
	return false
}

// InCgroup reports whether the path of a control group of the process contains part.
func (p Process) InCgroup(part string) bool {
	data, err := os.ReadFile(p.dir + "/cgroup")
	return err == nil && bytes.Contains(data, []byte(part))
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

// End ends all processes that match, also those that start meanwhile: it asks them, and after grace it kills them. It returns those that
// were still there at limit, with an error.
func End(ctx context.Context, match func(Process) bool, grace, limit time.Duration) ([]Process, error) {
	began := time.Now()
	asked := map[int]bool{}
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
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
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return left, ctx.Err()
		case <-timer.C:
		}
	}
}
