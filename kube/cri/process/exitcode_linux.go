package process

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pidfdInfo is struct pidfd_info of linux/pidfd.h, first version.
type pidfdInfo struct {
	mask     uint64
	cgroup   uint64
	ids      [11]uint32
	exitCode int32
}

const (
	pidfdGetInfo  = 0xC040FF0B // _IOWR(0xFF, 11, struct pidfd_info)
	pidfdInfoExit = 1 << 3
	reapWait      = time.Second
)

// exitCode returns how the adopted process behind a pidfd ended. It reads /proc until PID 1 has reaped the process.
// After that it asks the pidfd, which needs Linux 6.15. If the pidfd can't answer, it returns CodeUnknown.
func exitCode(pid, pidfd int) int32 {
	if OwnProc() {
		status, ok := zombieStatus(readAtMost("/proc/"+strconv.Itoa(pid)+"/stat", environmentLimit))
		// If the process has still not been reaped after the read, no other process could have its number yet, so the file
		// was that of this process.
		if ok && !reaped(pidfd, 0) {
			return code(status)
		}
	}
	reaped(pidfd, reapWait)
	info := pidfdInfo{mask: pidfdInfoExit}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(pidfd), pidfdGetInfo, uintptr(unsafe.Pointer(&info)))
	if errno != 0 || info.mask&pidfdInfoExit == 0 {
		return CodeUnknown
	}
	return code(syscall.WaitStatus(info.exitCode))
}

// reaped waits until the process behind a pidfd was reaped, and reports whether that happened within limit.
func reaped(pidfd int, limit time.Duration) bool {
	deadline := time.Now().Add(limit)
	for {
		fds := []unix.PollFd{{Fd: int32(pidfd)}} // no events: poll then reports only POLLHUP, for a reaped process
		n, err := unix.Poll(fds, int(max(time.Until(deadline), 0).Milliseconds()))
		if err == nil {
			return n > 0
		}
		if !errors.Is(err, unix.EINTR) {
			return false
		}
	}
}

// zombieStatus returns the wait status of a process that has ended but was not reaped: field 52 of /proc/PID/stat.
func zombieStatus(stat []byte) (syscall.WaitStatus, bool) {
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 50 || fields[0] != "Z" {
		return 0, false
	}
	status, err := strconv.Atoi(fields[49])
	return syscall.WaitStatus(status), err == nil
}
