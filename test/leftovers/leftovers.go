// Package leftovers lists what a management plane leaves behind on this machine, for tests that require that nothing is
// left.
package leftovers

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// Of lists what is left of the management plane in a home directory: processes and mounts that mention the directory,
// and the directory itself.
func Of(home string) []string {
	var left []string
	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range processes {
		data, err := os.ReadFile(p)
		if err == nil && bytes.Contains(data, []byte(home)) {
			left = append(left, "process "+strings.ReplaceAll(string(data), "\x00", " "))
		}
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for _, line := range strings.Split(string(mounts), "\n") {
		if strings.Contains(line, home) {
			left = append(left, "mount "+line)
		}
	}
	if _, err := os.Stat(home); !errors.Is(err, os.ErrNotExist) {
		left = append(left, "directory "+home)
	}
	return left
}
