//go:build linux

package outside

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrLocked reports that a dock already runs in this home directory.
var ErrLocked = errors.New("a dock is already running in this home directory")

// lock takes the lock that a dock holds while it runs. PID 1 in the dock inherits the file, so the lock is free only
// when the outer process and PID 1 are both gone.
func lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the dock: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s", ErrLocked, dir)
		}
		return nil, fmt.Errorf("locking the dock: %w", err)
	}
	return f, nil
}

// process identifies a process: the kernel reuses ids, but not with the same start time.
type process struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // in clock ticks since boot
	Boot  string `json:"boot"`  // the machine's boot id
}

func identify(pid int) (process, error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, err
	}
	// The name, in parentheses, may contain anything.
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	if len(fields) < 20 {
		return process{}, fmt.Errorf("reading the start time of process %d: %q", pid, data)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return process{}, err
	}
	return process{PID: pid, Start: fields[19], Boot: strings.TrimSpace(string(boot))}, nil
}

func (p process) write(path string) error {
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

// awaitPrevious waits until the first process of a killed dock is gone. Then all processes in that dock's namespaces
// are gone, too. The lock alone does not prove this, because the kernel may release it a little earlier.
func awaitPrevious(path string, limit time.Duration) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for what a previous dock left: %w", err)
	}
	var p process
	if json.Unmarshal(data, &p) != nil || p.PID <= 0 {
		return nil // incomplete: that dock was killed while it started
	}
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for what a previous dock left: %w", err)
	}
	defer unix.Close(fd)
	if now, err := identify(p.PID); err != nil || now != p {
		return nil // another process has that id now
	}
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for deadline := time.Now().Add(limit); ; {
		n, err := unix.Poll(poll, int(max(time.Until(deadline), 0)/time.Millisecond))
		switch {
		case n > 0:
			return nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return fmt.Errorf("waiting for a previous dock to exit: %w", err)
		case !time.Now().Before(deadline):
			return fmt.Errorf("process %d of a previous dock does not exit: stop it with `kill -9 %d`", p.PID, p.PID)
		}
	}
}
