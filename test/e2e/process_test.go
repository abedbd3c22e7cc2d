package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// process is one process of the shared management plane or of a host in it.
type process struct {
	pid, parent int
	args        []string
	host        string // the host that it runs on; empty outside of hosts
}

// name returns the name that the tests use for the process.
func (p process) name() string {
	switch base := filepath.Base(p.args[0]); {
	case base == "capstan-dock" && len(p.args) > 1:
		return "dock " + p.args[1]
	case base == "capstan" && len(p.args) > 1:
		return p.args[1]
	default:
		return base
	}
}

// processes lists all processes of the dock of homeDir, as seen from outside.
func processes() []process { return processesIn(homeDir) }

// processesIn lists all processes of the dock of a home directory, as seen from outside.
func processesIn(home string) []process {
	var all []process
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		stat, err := os.ReadFile(file)
		cmdline, err2 := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if err != nil || err2 != nil || len(cmdline) == 0 {
			continue // it exited meanwhile, or is a zombie
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		parent, _ := strconv.Atoi(strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))[1])
		all = append(all, process{
			pid: pid, parent: parent, args: strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00"),
		})
	}
	byPid := map[int]process{}
	for _, p := range all {
		byPid[p.pid] = p
	}
	hosts := map[int]string{}
	var ours []process
	for _, p := range all {
		for q, ok := p, true; ok; q, ok = byPid[q.parent] {
			if len(q.args) > 1 && q.args[1] == "init" && p.host == "" {
				p.host = hostOf(home, q.pid, hosts)
			}
			if slices.Contains(q.args, home) && strings.HasPrefix(q.name(), "dock run") {
				ours = append(ours, p)
				break
			}
		}
	}
	return ours
}

// hostOf returns the name of the host whose PID 1 this is, derived from the root directory that it sees.
func hostOf(home string, pid int, known map[int]string) string {
	if name, ok := known[pid]; ok {
		return name
	}
	roots, _ := filepath.Glob(filepath.Join(home, "dock", "hosts", "*", "root"))
	inside, err := os.ReadFile(fmt.Sprintf("/proc/%d/root/etc/machine-id", pid))
	for _, root := range roots {
		if id, err2 := os.ReadFile(filepath.Join(root, "etc", "machine-id")); err == nil && err2 == nil &&
			bytes.Equal(id, inside) {
			known[pid] = filepath.Base(filepath.Dir(root))
		}
	}
	return known[pid]
}

// kill sends SIGKILL to the process of that name: the one on that host, or the plane's.
func kill(name, host string, onHost bool) error {
	switch {
	case !onHost:
		host = ""
	case host == "":
		return fmt.Errorf("no host to kill %s on", name)
	}
	var seen []string
	for _, p := range processes() {
		seen = append(seen, p.name()+"@"+p.host)
		if p.name() == name && p.host == host {
			if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil {
				return fmt.Errorf("killing %s (%d): %w", name, p.pid, err)
			}
			return nil
		}
	}
	return fmt.Errorf("no process %s@%s among %v", name, host, seen)
}
