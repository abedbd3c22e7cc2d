// Package snapshot keeps copies of small directories, so that what "kubeadm reset" deletes can be restored before
// kubeadm runs again.
package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/capstan-dev/capstan/internal/regular"
)

// sizeLimit bounds the total size of a snapshot's files, in bytes.
const sizeLimit = 64 << 20

// Take copies directories into dir, unless dir exists. It skips directories that don't exist. If a crash interrupts
// Take, dir does not exist.
func Take(dir string, directories ...string) error {
	if _, err := os.Lstat(dir); err == nil {
		return nil
	}
	part := dir + ".part"
	if err := os.RemoveAll(part); err != nil {
		return fmt.Errorf("taking a snapshot: %w", err)
	}
	if err := os.MkdirAll(part, 0o700); err != nil {
		return fmt.Errorf("taking a snapshot: %w", err)
	}
	left := int64(sizeLimit)
	for _, directory := range directories {
		if err := copyTree(directory, filepath.Join(part, directory), &left); err != nil {
			return fmt.Errorf("taking a snapshot of %s: %w", directory, err)
		}
	}
	if err := os.Rename(part, dir); err != nil {
		return fmt.Errorf("taking a snapshot: %w", err)
	}
	return nil
}

// Restore restores everything in a snapshot. It replaces existing files and leaves others alone. A missing snapshot
// counts as empty.
func Restore(dir string) error {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	left := int64(sizeLimit)
	if err := copyTree(dir, "/", &left); err != nil {
		return fmt.Errorf("restoring a snapshot: %w", err)
	}
	return nil
}

// copyTree copies directories, files and links with their owners and modes. It stays within the file system of the
// source directory.
func copyTree(from, to string, left *int64) error {
	root, err := os.Lstat(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	device := root.Sys().(*syscall.Stat_t).Dev
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if info.Sys().(*syscall.Stat_t).Dev != device {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if path == from {
			if to == "/" {
				return nil
			}
			if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
				return err
			}
		}
		return copyEntry(path, target, info, left)
	})
}

func copyEntry(path, target string, info fs.FileInfo, left *int64) error {
	switch info.Mode().Type() {
	case fs.ModeDir:
		if err := os.Mkdir(target, 0o700); err != nil {
			if !errors.Is(err, fs.ErrExist) {
				return err
			}
			return nil // the root's own directories keep their modes
		}
	case fs.ModeSymlink:
		link, err := os.Readlink(path)
		if err != nil {
			return err
		}
		_ = os.Remove(target)
		if err := os.Symlink(link, target); err != nil {
			return err
		}
		return own(target, info)
	case 0:
		if *left -= info.Size(); *left < 0 {
			return fmt.Errorf("there are more than %d bytes", sizeLimit)
		}
		data, err := regular.Read(path, info.Size())
		if err != nil {
			return err
		}
		_ = os.Remove(target)
		if err := os.WriteFile(target, data, 0o600); err != nil {
			return err
		}
	default:
		return nil // programs create their own sockets, pipes and devices
	}
	if err := own(target, info); err != nil {
		return err
	}
	return os.Chmod(target, info.Mode())
}

func own(target string, info fs.FileInfo) error {
	stat := info.Sys().(*syscall.Stat_t)
	return os.Lchown(target, int(stat.Uid), int(stat.Gid))
}
