package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// CPU returns the processor time that all processes of a container have used, including ended ones. It returns false if
// the container's groups don't count it. In version 1, the groups count it if the machine mounts the controllers cpu
// and cpuacct together.
func (t *Tree) CPU(pod, container string) (time.Duration, bool) {
	if text, ok := t.read("cpu", pod, container, "cpuacct.usage"); ok {
		return time.Duration(parse(text)), true
	}
	text, ok := t.read(unified, pod, container, "cpu.stat")
	return time.Duration(count(text, "usage_usec")) * time.Microsecond, ok
}

// Memory returns the bytes that the processes of a container use, without the pages of files that the kernel would drop
// first. It returns false if the container's groups don't count them.
func (t *Tree) Memory(pod, container string) (uint64, bool) {
	controller, file, inactive := "memory", "memory.usage_in_bytes", "total_inactive_file"
	used, ok := t.read(controller, pod, container, file)
	if !ok {
		controller, file, inactive = unified, "memory.current", "inactive_file"
		used, ok = t.read(controller, pod, container, file)
	}
	stat, has := t.read(controller, pod, container, "memory.stat")
	if !ok || !has {
		return 0, false
	}
	return uint64(max(parse(used)-count(stat, inactive), 0)), true
}

// read returns the text of one file of a container's group. It returns false if the group or the file does not exist.
func (t *Tree) read(controller, pod, container, file string) (string, bool) {
	if t == nil || t.pods[controller] == "" {
		return "", false
	}
	data, err := os.ReadFile(filepath.Join(t.pods[controller], pod, container, file))
	return string(data), err == nil
}

func parse(text string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSpace(text), 10, 64) // the kernel always writes numbers
	return n
}
