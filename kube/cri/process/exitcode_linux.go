package process

import (
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

// exitCode asks the kernel how the process behind a pidfd ended, which it tells since Linux 6.15 once the process was reaped;
// CodeUnknown otherwise. It waits a moment for the reaping, which PID 1 does.
func exitCode(pidfd int) int32 {
	deadline := time.Now().Add(reapWait)
	for time.Now().Before(deadline) {
		fds := []unix.PollFd{{Fd: int32(pidfd)}} // POLLHUP alone: it has been reaped
		if n, err := unix.Poll(fds, int(time.Until(deadline).Milliseconds())+1); err == nil && n > 0 {
			break
		}
	}
	info := pidfdInfo{mask: pidfdInfoExit}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(pidfd), pidfdGetInfo, uintptr(unsafe.Pointer(&info)))
	if errno != 0 || info.mask&pidfdInfoExit == 0 {
		return CodeUnknown
	}
	return code(syscall.WaitStatus(info.exitCode))
}
