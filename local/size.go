package local

import (
	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/dock"
)

// hostsFor returns how many local hosts a machine can hold: one per 512 MiB beyond what the plane needs, and one per 8
// inotify instances (a control plane uses 18, a worker 5); 3 to 32. Zero means unknown.
func hostsFor(memoryMiB, inotifyInstances int) int {
	n := 32
	if memoryMiB > 0 {
		n = min(n, (memoryMiB-1536)/512)
	}
	if inotifyInstances > 0 {
		n = min(n, inotifyInstances/8)
	}
	return max(n, 3)
}

func memoryMiB() int {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int(uint64(info.Totalram) * uint64(info.Unit) >> 20)
}

func inotifyInstances() int {
	n, err := dock.InotifyInstances()
	if err != nil {
		return 0
	}
	return n
}
