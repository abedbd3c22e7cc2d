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
	return a.lockFile(ctx, filepath.Join(string(a.home), "lock"), "capstan up or down")
}

// lockFile waits until nobody else holds a file; others are what may.
func (a *app) lockFile(ctx context.Context, path, others string) (unlock func(), err error) {
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
			fmt.Fprintf(a.err, "Another %s is at work here; waiting for it.\n", others)
			said = true
		}
		select {
		case <-ctx.Done():
			file.Close()
			return nil, hint("try again when it has ended", "another %s is still at work in %s", others, a.home)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
