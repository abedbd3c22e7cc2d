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
	// unlockedFor is how old a directory is at least whose process was killed: a younger one may be about to be locked.
	unlockedFor = time.Minute
)

// Scratch makes a directory for snapshots in between, which are as secret as the cluster, and removes those that
// processes left behind that were killed: a living one holds a lock on its own. parent may be empty for the directory
// of the operating system. remove must be called in the end.
func Scratch(parent string) (path string, remove func(), err error) {
	if parent == "" {
		parent = os.TempDir()
	}
	left, _ := filepath.Glob(filepath.Join(parent, scratchPrefix+"*")) // fails for patterns that are none only
	for _, old := range left {
		if info, err := os.Lstat(old); err != nil || !ours(info) || time.Since(info.ModTime()) < unlockedFor {
			continue
		}
		if lock, err := lockDirectory(old); err == nil {
			_ = os.RemoveAll(old) // tried again next time
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

// ours reports whether a file is a directory of this user, and no link: parent may be a directory where everybody can
// make some of that name.
func ours(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.IsDir() && int64(stat.Uid) == int64(os.Geteuid())
}

// lockDirectory fails if somebody else has the lock.
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
