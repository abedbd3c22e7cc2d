package backup

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	scratchPrefix = "capstan-backup-"
	// unlockedFor is the minimum age of an abandoned directory without a lock. A younger one may be about to be locked.
	unlockedFor = time.Minute
)

// Scratch creates a directory for temporary snapshots, which are as secret as the cluster. It removes the directories
// of killed processes; a live process holds a lock on its own. An empty parent means the temporary directory of the
// operating system. The caller must call remove at the end.
func Scratch(parent string) (path string, remove func(), err error) {
	if parent == "" {
		parent = os.TempDir()
	}
	left, _ := filepath.Glob(filepath.Join(parent, scratchPrefix+"*")) // fails only for invalid patterns
	for _, old := range left {
		if info, err := os.Lstat(old); err != nil || !ours(info) || time.Since(info.ModTime()) < unlockedFor {
			continue
		}
		if lock, err := lockDirectory(old); err == nil {
			_ = os.RemoveAll(old) // the next call tries again
			_ = lock.Close()
		}
	}
	if path, err = os.MkdirTemp(parent, scratchPrefix); err != nil {
		return "", nil, fmt.Errorf("making a directory for the snapshot: %w", err)
	}
	lock, err := lockDirectory(path)
	if err != nil {
		_ = os.RemoveAll(path)
		return "", nil, fmt.Errorf("locking the directory for the snapshot: %w", err)
	}
	return path, func() {
		_ = os.RemoveAll(path)
		_ = lock.Close()
	}, nil
}

// ours reports whether a file is a directory of this user and not a link, as anybody can create such names in a shared
// parent.
func ours(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.IsDir() && int64(stat.Uid) == int64(os.Geteuid())
}

// lockDirectory fails if another process holds the lock.
func lockDirectory(path string) (*os.File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}
