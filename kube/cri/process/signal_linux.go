package process

import (
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// SignalOne sends a signal to the process with this number and start time (in ticks since the machine's boot, as in
// /proc/PID/stat). It returns ErrGone if that process has ended, even if another process has the number now. /proc must
// show this process's own PID namespace.
func SignalOne(pid int, started string, s unix.Signal) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return ErrGone
	}
	if err != nil {
		return fmt.Errorf("opening a pidfd of process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	// From now on the pidfd refers to one process. Check that it is the intended one.
	if startTime(readAtMost("/proc/"+strconv.Itoa(pid)+"/stat", environmentLimit)) != started {
		return ErrGone
	}
	err = unix.PidfdSendSignal(fd, s, nil, 0)
	if errors.Is(err, unix.ESRCH) {
		return ErrGone
	}
	if err != nil {
		return fmt.Errorf("sending %s to process %d: %w", unix.SignalName(s), pid, err)
	}
	return nil
}
