package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Data is etcd's data directory, which can be replaced while etcd is not running. During a
// replacement, its parent directory also contains a snapshot, the new directory and the old one.
type Data string

// Snapshot returns the path of the snapshot from which the new directory is created.
func (d Data) Snapshot() string { return string(d) + ".snapshot" }

// New returns the path of the new directory.
func (d Data) New() string { return string(d) + ".new" }

func (d Data) old() string { return string(d) + ".old" }

// Empty reports whether there is no data.
func (d Data) Empty() (bool, error) {
	for _, path := range []string{string(d), d.old()} {
		if _, err := os.Lstat(path); err == nil {
			return false, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("looking for etcd's data: %w", err)
		}
	}
	return true, nil
}

// Settle cleans up after a replacement that was killed: it moves the old directory back if the new one did not take its
// place, and removes everything else.
func (d Data) Settle() error {
	_, err := os.Lstat(string(d))
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.Rename(d.old(), string(d)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("undoing the replacement of etcd's data: %w", err)
		}
	} else if err != nil {
		return fmt.Errorf("looking for etcd's data: %w", err)
	}
	for _, path := range []string{d.old(), d.New(), d.Snapshot()} {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("removing what an interrupted start left: %w", err)
		}
	}
	return nil
}

// Replace replaces the data with the new directory. It renames the old directory, calls moved (which may be nil), and
// renames the new directory into place. If Replace is killed between the renames, Settle undoes the first one.
func (d Data) Replace(moved func()) error {
	if err := os.Rename(string(d), d.old()); err != nil {
		return fmt.Errorf("replacing etcd's data: %w", err)
	}
	if moved != nil {
		moved()
	}
	if err := os.Rename(d.New(), string(d)); err != nil {
		return errors.Join(fmt.Errorf("replacing etcd's data: %w", err), d.Settle())
	}
	parent, err := os.Open(filepath.Dir(string(d)))
	if err != nil {
		return fmt.Errorf("replacing etcd's data: %w", err)
	}
	defer parent.Close()
	if err := parent.Sync(); err != nil { // keep the old directory until the new one is safe
		return fmt.Errorf("replacing etcd's data: %w", err)
	}
	return d.Settle()
}
