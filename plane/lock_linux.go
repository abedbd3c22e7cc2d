package plane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/capstan-dev/capstan/internal/backoff"
)

// lockWait bounds how long a start waits for the previous plane to stop.
const lockWait = 30 * time.Second

// lock takes the lock of the plane in directory dir. The lock belongs to the open file, which every child inherits, so
// the lock becomes free once the plane and all its children are gone, even if they were killed. So two etcds never use
// the same directory.
func lock(ctx context.Context, dir string, limit time.Duration) (*os.File, error) {
	path := filepath.Join(dir, "lock")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of the plane: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return file, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			file.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		if backoff.Sleep(ctx, 20*time.Millisecond) != nil {
			file.Close()
			return nil, fmt.Errorf("another plane, or a process that it left behind, still uses %s; stop it first (it holds "+
				"%s)", dir,
				path)
		}
	}
}
