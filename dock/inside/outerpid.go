//go:build linux

package inside

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// outerPID translates a PID in the dock to the PID on the machine: it opens a pidfd for the process, and the machine's
// /proc shows the PID on the machine in the fdinfo of the pidfd. It returns 0 if the process is gone.
func (e *engine) outerPID(pid int) int {
	if pid == 0 {
		return 0
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	info, err := unix.Openat(int(e.machineProc.Fd()), fmt.Sprintf("self/fdinfo/%d", fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	f := os.NewFile(uintptr(info), "fdinfo")
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 4<<10))
	if err != nil {
		return 0
	}
	for _, line := range strings.Split(string(data), "\n") {
		if v, ok := strings.CutPrefix(line, "Pid:"); ok {
			if n, err := strconv.Atoi(strings.TrimSpace(v)); err == nil && n > 0 {
				return n
			}
		}
	}
	return 0
}
