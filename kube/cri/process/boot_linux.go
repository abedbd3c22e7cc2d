package process

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// Boot returns a text that identifies this run of the host: the machine's boot and the start time of this PID
// namespace's PID 1. The namespace's own number would not suffice, because the kernel reuses it.
func Boot() (string, error) {
	machine, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("finding the boot id (is /proc mounted?): %w", err)
	}
	if OwnProc() {
		if started := startTime(readAtMost("/proc/1/stat", environmentLimit)); started != "" {
			return strings.TrimSpace(string(machine)) + " " + started, nil
		}
		return "", errors.New("finding PID 1 of this host: /proc/1/stat can't be read")
	}
	own, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return "", fmt.Errorf("finding the PID namespace: %w", err)
	}
	for _, entry := range pids() {
		if namespace, err := os.Readlink("/proc/" + entry + "/ns/pid"); err != nil || namespace != own {
			continue
		}
		if innermost(readAtMost("/proc/"+entry+"/status", environmentLimit), "NSpid:") != 1 {
			continue
		}
		if started := startTime(readAtMost("/proc/"+entry+"/stat", environmentLimit)); started != "" {
			return strings.TrimSpace(string(machine)) + " " + started, nil
		}
	}
	return "", errors.New("finding PID 1 of this host: its entry in /proc can't be read")
}

// OwnProc reports whether /proc shows this process's own PID namespace, not an outer one.
func OwnProc() bool {
	return len(numbers(readAtMost("/proc/self/status", environmentLimit), "NSpid:")) == 1
}

// startTime returns the start time of a process, in ticks since the machine's boot: field 22 of /proc/PID/stat. The
// second field, a name in parentheses, may contain anything.
func startTime(stat []byte) string {
	after := strings.LastIndexByte(string(stat), ')')
	if after < 0 {
		return ""
	}
	fields := strings.Fields(string(stat[after+1:]))
	if len(fields) < 20 {
		return ""
	}
	return fields[19]
}
