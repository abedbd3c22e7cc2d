package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// run describes the run that a report is about: what was tested, when, and what the machine can do.
type run struct {
	commit, date string
	abilities    []string
}

// lines returns the description, line by line.
func (r run) lines() []string {
	return []string{"commit " + r.commit, "date " + r.date, "machine " + strings.Join(r.abilities, ", ")}
}

// here describes this run in the directory of the sources.
func here(root string, now time.Time) run {
	return run{commit: commit(root), date: now.UTC().Format(time.RFC3339), abilities: abilities()}
}

// commit returns the commit that is checked out, with a mark if files differ from it.
func commit(root string) string {
	out, err := exec.Command("git", "-C", root, "rev-parse", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	name := strings.TrimSpace(string(out))
	if out, err := exec.Command("git", "-C", root, "status", "--porcelain").Output(); err != nil || len(out) > 0 {
		name += ", with changes"
	}
	return name
}

// abilities lists the properties of the machine that decide which tests can run.
func abilities() []string {
	list := []string{
		runtime.GOOS + "/" + runtime.GOARCH,
		fmt.Sprintf("%d processors", runtime.NumCPU()),
		fmt.Sprintf("user id %d", os.Geteuid()),
		"kernel " + firstWord("/proc/sys/kernel/osrelease"),
	}
	groups := "cgroup v2"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil {
		groups = "no cgroup v2"
	}
	list = append(list, groups)
	if n := firstWord("/proc/sys/user/max_user_namespaces"); n != "0" {
		list = append(list, "user namespaces")
	}
	for _, program := range []string{"gcc", "systemd-nspawn"} {
		if _, err := exec.LookPath(program); err == nil {
			list = append(list, program)
		} else {
			list = append(list, "no "+program)
		}
	}
	return list
}

// firstWord returns the first word of a file, or "unknown" if the file can't be read.
func firstWord(path string) string {
	data, err := os.ReadFile(path)
	if fields := strings.Fields(string(data)); err == nil && len(fields) > 0 {
		return fields[0]
	}
	return "unknown"
}
