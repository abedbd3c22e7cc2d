//go:build linux

package initd

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// kept lists the capabilities of a host's processes, each with the operations or programs that need it. They apply only
// in the host's user namespace: to its own files, processes, network and mounts.
var kept = map[uintptr]string{
	unix.CAP_CHOWN:            "files of pods and users",
	unix.CAP_DAC_OVERRIDE:     "root reads and writes the files of others, as on every host",
	unix.CAP_FOWNER:           "root changes modes of others' files",
	unix.CAP_FSETID:           "set-group-id directories of volumes",
	unix.CAP_KILL:             "services and containers are stopped",
	unix.CAP_SETGID:           "processes of users, runAsGroup",
	unix.CAP_SETUID:           "processes of users, runAsUser",
	unix.CAP_SETPCAP:          "containers drop capabilities",
	unix.CAP_SETFCAP:          "files of images that have capabilities; nested user namespaces map root",
	unix.CAP_NET_BIND_SERVICE: "servers on ports below 1024",
	unix.CAP_NET_ADMIN:        "addresses, routes and rules of the host's network",
	unix.CAP_NET_RAW:          "ping, and probes of network plug-ins",
	unix.CAP_IPC_LOCK:         "etcd and secrets lock memory",
	unix.CAP_SYS_CHROOT:       "containers, and tools that use chroot",
	unix.CAP_SYS_PTRACE:       "shared process namespaces, kubectl debug",
	unix.CAP_SYS_ADMIN:        "mounts, namespaces and host names of containers",
	unix.CAP_SYS_NICE:         "priorities of control plane components",
	unix.CAP_SYS_RESOURCE:     "resource limits of containers, oom_score_adj",
	unix.CAP_AUDIT_WRITE:      "login tools; in a user namespace it reaches nothing",
}

// dropCapabilities removes all other capabilities from the bounding set, so that this process's children can never have
// them. last is the highest capability that the kernel knows.
func dropCapabilities(last uintptr) error {
	for c := uintptr(0); c <= last; c++ {
		if kept[c] != "" {
			continue
		}
		_, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0)
		if errno == unix.ENOTSUP {
			return errors.New("dropping capabilities: this program can't do that: build it with CGO_ENABLED=0")
		}
		if errno != 0 && errno != unix.EINVAL { // EINVAL: this kernel does not have it
			return fmt.Errorf("dropping capability %d: %w", c, errno)
		}
	}
	return nil
}

// lastCapability returns the highest capability that the kernel knows, or else the highest that this program knows.
func lastCapability() uintptr {
	data, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	if n, parseErr := strconv.Atoi(strings.TrimSpace(string(data))); err == nil && parseErr == nil && n > 0 {
		return uintptr(n)
	}
	return unix.CAP_LAST_CAP
}
