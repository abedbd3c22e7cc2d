// Package mountinfo lists what is mounted.
package mountinfo

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Mount is one mount of this mount namespace.
type Mount struct {
	// Point is the path of the mount point.
	Point string
	// Type is the type of the file system.
	Type string
	// Source is the device, or what the file system says instead.
	Source string
}

// List returns the mounts in the order in which they were mounted.
func List() ([]Mount, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("listing mounts: %w", err)
	}
	return parse(string(data)), nil
}

// Below returns the mounts at path and below it, in the order in which they were mounted.
func Below(path string) ([]Mount, error) {
	all, err := List()
	if err != nil {
		return nil, err
	}
	var below []Mount
	for _, m := range all {
		if m.Point == path || strings.HasPrefix(m.Point, strings.TrimSuffix(path, "/")+"/") {
			below = append(below, m)
		}
	}
	return below, nil
}

// parse reads the format of proc_pid_mountinfo(5). Lines that it does not understand are left out.
func parse(data string) []Mount {
	var mounts []Mount
	for line := range strings.Lines(data) {
		before, after, found := strings.Cut(line, " - ")
		fields, last := strings.Fields(before), strings.Fields(after)
		if !found || len(fields) < 6 || len(last) < 2 {
			continue
		}
		mounts = append(mounts, Mount{Point: unescape(fields[4]), Type: last[0], Source: unescape(last[1])})
	}
	return mounts
}

// unescape replaces the octal codes by which the kernel writes white space.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if code, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
