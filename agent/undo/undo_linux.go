// Package undo keeps the originals of files that bootstrap data changes on a host, so that cleaning can restore them.
package undo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/capstan-dev/capstan/internal/regular"
)

// sizeLimit bounds one kept file, in bytes.
const sizeLimit = 64 << 20

// Keys of the notes that this package writes.
const (
	fileKey = "original"
	dirKey  = "made-dir"
)

// Notes records what was kept; a journal implements it.
type Notes interface {
	Note(key, value string) error
	Notes(key string) []string
}

// Keeper keeps originals in a directory.
type Keeper struct {
	// Dir is the directory; it is created when the first file is kept.
	Dir string
	// Notes record what was kept.
	Notes Notes
}

// original is the note about one file.
type original struct {
	Path string `json:"path"`
	// Copy is the name of the copy; empty if the file did not exist.
	Copy string `json:"copy,omitempty"`
	Mode uint32 `json:"mode,omitempty"`
	UID  int    `json:"uid,omitempty"`
	GID  int    `json:"gid,omitempty"`
}

// Keep must be called before the file at path is changed or created. Only the first call for a path has an effect, even
// across crashes.
func (k *Keeper) Keep(path string) error {
	known, err := k.list()
	if err != nil {
		return err
	}
	for _, o := range known {
		if o.Path == path {
			return nil
		}
	}
	note := original{Path: path}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("keeping %s: %w", path, err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("keeping %s: it is not a regular file", path)
	default:
		stat := info.Sys().(*syscall.Stat_t)
		note.Copy, note.Mode, note.UID, note.GID = strconv.Itoa(len(known)), uint32(stat.Mode&0o7777), int(stat.Uid),
			int(stat.Gid)
		if err := os.MkdirAll(k.Dir, 0o700); err != nil {
			return fmt.Errorf("keeping %s: %w", path, err)
		}
		if err := copyFile(path, filepath.Join(k.Dir, note.Copy)); err != nil {
			return fmt.Errorf("keeping %s: %w", path, err)
		}
	}
	value, err := json.Marshal(note)
	if err != nil {
		return err
	}
	return k.Notes.Note(fileKey, string(value))
}

// MakeDir creates a directory and its parents, and records which ones were missing.
func (k *Keeper) MakeDir(path string) error {
	var missing []string
	for p := filepath.Clean(path); ; p = filepath.Dir(p) {
		if _, err := os.Stat(p); err == nil || p == "/" {
			break
		}
		missing = append(missing, p)
	}
	for i := len(missing) - 1; i >= 0; i-- {
		if err := k.Notes.Note(dirKey, missing[i]); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return fmt.Errorf("creating a directory: %w", err)
	}
	return nil
}

// Restore restores everything, starting with the last change. It restores the old contents of files, and deletes new
// files, and new directories that are empty now. It does as much as possible and returns what failed.
func (k *Keeper) Restore() error {
	known, err := k.list()
	if err != nil {
		return err
	}
	var errs []error
	for i := len(known) - 1; i >= 0; i-- {
		errs = append(errs, k.restore(known[i]))
	}
	dirs := k.Notes.Notes(dirKey)
	for i := len(dirs) - 1; i >= 0; i-- {
		if err := os.Remove(dirs[i]); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTEMPTY) &&
			!errors.Is(err, syscall.EBUSY) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Made returns the paths of files that did not exist before.
func (k *Keeper) Made() []string {
	known, _ := k.list()
	var made []string
	for _, o := range known {
		if o.Copy == "" {
			made = append(made, o.Path)
		}
	}
	return made
}

// Kept returns the paths of files that existed before.
func (k *Keeper) Kept() []string {
	known, _ := k.list()
	var kept []string
	for _, o := range known {
		if o.Copy != "" {
			kept = append(kept, o.Path)
		}
	}
	return kept
}

// Changed returns the paths of files that existed before and whose contents have changed. It skips files whose copy is
// gone, because those have been restored already.
func (k *Keeper) Changed() ([]string, error) {
	known, err := k.list()
	if err != nil {
		return nil, err
	}
	var changed []string
	for _, o := range known {
		if o.Copy == "" {
			continue
		}
		before, err := regular.Open(filepath.Join(k.Dir, o.Copy), os.O_RDONLY)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the saved copy of %s: %w", o.Path, err)
		}
		now, err := regular.Open(o.Path, os.O_RDONLY)
		if err != nil || !same(before, now) {
			changed = append(changed, o.Path)
		}
		before.Close()
		if now != nil {
			now.Close()
		}
	}
	return changed, nil
}

func (k *Keeper) restore(o original) error {
	if o.Copy == "" {
		if err := os.Remove(o.Path); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return err
		}
		return nil
	}
	if _, err := os.Lstat(filepath.Join(k.Dir, o.Copy)); errors.Is(err, fs.ErrNotExist) {
		return nil // copies are deleted once all files are restored
	}
	if err := os.MkdirAll(filepath.Dir(o.Path), 0o755); err != nil {
		return err
	}
	if info, err := os.Lstat(o.Path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		if err := os.Remove(o.Path); err != nil { // a link, pipe or device; it was a regular file when it was kept
			return err
		}
	}
	// Write into the existing file, so that mounts on it and links to it stay.
	if err := copyFile(filepath.Join(k.Dir, o.Copy), o.Path); err != nil {
		return err
	}
	if err := os.Chown(o.Path, o.UID, o.GID); err != nil {
		return err
	}
	return syscall.Chmod(o.Path, o.Mode)
}

func (k *Keeper) list() ([]original, error) {
	var list []original
	for _, value := range k.Notes.Notes(fileKey) {
		var o original
		if err := json.Unmarshal([]byte(value), &o); err != nil {
			return nil, fmt.Errorf("reading the record of changed files: %w", err)
		}
		list = append(list, o)
	}
	return list, nil
}

// same reports whether two files have the same contents, which may not fit into memory.
func same(a, b *os.File) bool {
	first, err := a.Stat()
	if err != nil {
		return false
	}
	second, err := b.Stat()
	if err != nil || first.Size() != second.Size() {
		return false
	}
	one, other := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, err := io.ReadFull(a, one)
		m, err2 := io.ReadFull(b, other)
		if n != m || !bytes.Equal(one[:n], other[:m]) {
			return false
		}
		if err != nil || err2 != nil {
			return isEnd(err) && isEnd(err2)
		}
	}
}

func isEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// copyFile copies the contents and syncs them to disk.
func copyFile(from, to string) error {
	in, err := regular.Open(from, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := regular.Open(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	defer out.Close()
	n, err := io.Copy(out, io.LimitReader(in, sizeLimit+1))
	if err != nil {
		return err
	}
	if n > sizeLimit {
		return fmt.Errorf("it is larger than %d bytes, too large to be saved and restored", sizeLimit)
	}
	return errors.Join(out.Sync(), out.Close())
}
