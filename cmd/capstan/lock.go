package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lock makes sure that one "up" or "down" at a time works on a home directory. A second one waits for the first.
func (a *app) lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(string(a.home), 0o700); err != nil {
		return nil, hint("choose another directory with --home or CAPSTAN_HOME", "making the home directory: %w", err)
	}
	path := filepath.Join(string(a.home), "lock")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", a.home, err)
	}
	for said := false; ; {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { file.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			file.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		if !said {
			fmt.Fprintln(a.err, "Another capstan up or down is at work here; waiting for it.")
			said = true
		}
		select {
		case <-ctx.Done():
			file.Close()
			return nil, hint("try again when it has ended", "another capstan up or down is still at work in %s", a.home)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
