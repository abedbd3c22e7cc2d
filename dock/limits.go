//go:build linux

package dock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// LeastDisk is how many bytes must be free on the disk of a dock's home directory for a start.
const LeastDisk = 1 << 30

// Limits are the figures of the machine that decide how many hosts it holds.
type Limits struct {
	Processors int
	// Memory is what can be used without swapping, in bytes, at the moment.
	Memory uint64
	// FreeDisk is what this user may still write to the disk of the home directory, in bytes.
	FreeDisk uint64
	// OpenFiles is the hard limit for one process.
	OpenFiles uint64
	// InotifyInstances may be held by this user, InotifyUsed are. A control plane takes 18, a worker 5.
	InotifyInstances, InotifyUsed int
}

// ReadLimits looks at the machine. home need not exist yet.
func ReadLimits(home string) (Limits, error) {
	l := Limits{Processors: runtime.NumCPU(), InotifyUsed: inotifyUsed()}
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return l, fmt.Errorf("reading how much memory there is: %w", err)
	}
	for _, line := range strings.Split(string(data), "\n") {
		if v, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			kib, _ := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(v), " kB"), 10, 64)
			l.Memory = kib << 10
		}
	}
	var st syscall.Statfs_t
	if err := syscall.Statfs(existing(home), &st); err != nil {
		return l, fmt.Errorf("reading how much of the disk of %s is free: %w", home, err)
	}
	l.FreeDisk = st.Bavail * uint64(st.Bsize)
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return l, fmt.Errorf("reading the limit of open files: %w", err)
	}
	l.OpenFiles = r.Max
	if l.InotifyInstances, err = InotifyInstances(); err != nil {
		return l, err
	}
	return l, nil
}

// InotifyInstances is how many of them this user may hold: what the machine allows, or less in a container's user
// namespace.
func InotifyInstances() (int, error) {
	least := -1
	for _, path := range []string{"/proc/sys/fs/inotify/max_user_instances", "/proc/sys/user/max_inotify_instances"} {
		data, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) && least >= 0 {
			continue // a kernel without user namespaces
		}
		if err != nil {
			return 0, fmt.Errorf("reading the limit of inotify instances: %w", err)
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(data)))
		if err != nil {
			return 0, fmt.Errorf("reading the limit of inotify instances from %s: %w", path, err)
		}
		if least < 0 || n < least {
			least = n
		}
	}
	return least, nil
}

// existing gives path, or the nearest of its parents that exists.
func existing(path string) string {
	for path != "/" && path != "." {
		if _, err := os.Stat(path); err == nil {
			break
		}
		path = filepath.Dir(path)
	}
	return path
}

// inotifyUsed counts what processes of this user hold, as far as /proc shows them.
func inotifyUsed() int {
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0
	}
	n := 0
	for _, p := range processes {
		info, err := os.Stat(p)
		if err != nil {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
			continue
		}
		fds, err := os.ReadDir(p + "/fd")
		if err != nil {
			continue
		}
		for _, fd := range fds {
			if target, err := os.Readlink(p + "/fd/" + fd.Name()); err == nil && target == "anon_inode:inotify" {
				n++
			}
		}
	}
	return n
}
