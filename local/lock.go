package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/capstan-dev/capstan/internal/hint"
	"github.com/capstan-dev/capstan/internal/home"
)

// ErrBusy is wrapped by the error of an operation that gave up waiting for another one in the same home directory.
var ErrBusy = errors.New("is still at work")

// lockPause is the time between two attempts to lock a file.
const lockPause = 100 * time.Millisecond

// lockHome lets only one Up or Down at a time work on a home directory. A second one waits for the first.
func lockHome(ctx context.Context, dir home.Dir, progress Progress) (unlock func(), err error) {
	if err := os.MkdirAll(string(dir), 0o700); err != nil {
		return nil, hint.Errorf("choose another directory with --home or CAPSTAN_HOME", "making the home directory: %w", err)
	}
	return LockFile(ctx, dir.Lock(), "capstan up or down", progress)
}

// LockFile waits until nobody else holds the file at path, creating the file if it is missing. holder is the command
// that may hold the file, such as "capstan up or down"; before it waits, LockFile sends a Note that names this command.
// If ctx cuts the wait short, the error wraps [ErrBusy].
func LockFile(ctx context.Context, path, holder string, progress Progress) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	said := false
	err = wait.PollUntilContextCancel(ctx, lockPause, true, func(context.Context) (bool, error) {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			if !said {
				progress.note("Another " + holder + " is at work here; waiting for it.")
				said = true
			}
			return false, nil
		}
		return err == nil, err
	})
	if err == nil {
		return func() { file.Close() }, nil
	}
	file.Close()
	if ctx.Err() != nil {
		return nil, hint.Errorf("try again when it has finished", "another %s %w in %s", holder, ErrBusy, filepath.Dir(path))
	}
	return nil, fmt.Errorf("locking %s: %w", path, err)
}
