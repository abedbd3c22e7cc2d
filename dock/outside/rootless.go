//go:build linux

package outside

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Rootless reports whether this process needs a user namespace to create other namespaces. Root in a container needs
// one, too, if it lacks capabilities.
func Rootless() bool {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return os.Geteuid() != 0
	}
	for _, line := range strings.Split(string(status), "\n") {
		if v, ok := strings.CutPrefix(line, "CapEff:"); ok {
			caps, err := strconv.ParseUint(strings.TrimSpace(v), 16, 64)
			need := uint64(1)<<unix.CAP_SYS_ADMIN | uint64(1)<<unix.CAP_NET_ADMIN
			return err != nil || os.Geteuid() != 0 || caps&need != need
		}
	}
	return os.Geteuid() != 0
}
