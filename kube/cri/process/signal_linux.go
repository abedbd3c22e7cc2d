package process

import (
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// SignalOne sends a signal to the process with a number that was started at a time (in ticks since the machine's
// boot, as /proc/PID/stat has it). ErrGone if that one has ended, also when another has the number now. /proc must
// count as this process does.
func SignalOne(pid int, started string, s unix.Signal) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return ErrGone
	}
	if err != nil {
		return fmt.Errorf("opening a pidfd of process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	// The pidfd now stands for one process for good: is it still the one that was meant?
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
