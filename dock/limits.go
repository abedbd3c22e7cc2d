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

// LeastDisk is the free space in bytes that a start needs on the disk of the dock's home directory.
const LeastDisk = 1 << 30

// Limits are the figures of a machine that determine how many hosts it can run.
type Limits struct {
	Processors int
	// Memory is the memory currently available without swapping, in bytes.
	Memory uint64
	// FreeDisk is how many bytes this user can still write to the disk of the home directory.
	FreeDisk uint64
	// OpenFiles is the hard limit of open files for one process.
	OpenFiles uint64
	// InotifyInstances is this user's limit of inotify instances. InotifyUsed is the number in use. A control plane takes
	// 18, a worker 5.
	InotifyInstances, InotifyUsed int
}

// ReadLimits reads the figures of this machine. home need not exist yet.
func ReadLimits(home string) (Limits, error) {
	l := Limits{Processors: runtime.NumCPU(), InotifyUsed: inotifyUsed()}
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return l, fmt.Errorf("reading the amount of available memory: %w", err)
	}
	for _, line := range strings.Split(string(data), "\n") {
		if v, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			kib, _ := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(v), " kB"), 10, 64)
			l.Memory = kib << 10
		}
	}
	var st syscall.Statfs_t
	if err := syscall.Statfs(existing(home), &st); err != nil {
		return l, fmt.Errorf("reading the free space on the disk of %s: %w", home, err)
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

// InotifyInstances returns this user's limit of inotify instances: the limit of the machine, or a lower limit of a
// container's user namespace.
func InotifyInstances() (int, error) {
	least := -1
	for _, path := range []string{"/proc/sys/fs/inotify/max_user_instances", "/proc/sys/user/max_inotify_instances"} {
		data, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) && least >= 0 {
			continue // this kernel has no user namespaces
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

// existing returns path, or its nearest existing parent.
func existing(path string) string {
	for path != "/" && path != "." {
		if _, err := os.Stat(path); err == nil {
			break
		}
		path = filepath.Dir(path)
	}
	return path
}

// inotifyUsed counts the inotify instances of this user's processes, as far as /proc shows them.
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
