package apply

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/capstan-dev/capstan/agent/cloudconfig"
	"github.com/capstan-dev/capstan/agent/fault"
)

// Files writes files in order. step is the name of the bootstrap step.
func (h *Host) Files(step string, files []cloudconfig.File) error {
	for i, f := range files {
		if err := h.file(fmt.Sprintf("%s %d %s", step, i, f.Path), f); err != nil {
			return fault.New(err, "file %d of %d", i+1, len(files))
		}
		h.Log.Printf("wrote %s", f.Path)
	}
	return nil
}

// file writes one file. id identifies it among all files written for a claim.
func (h *Host) file(id string, f cloudconfig.File) error {
	path, err := target(f.Path)
	if err != nil {
		return fault.New(err, "its path contains a loop of symbolic links")
	}
	uid, gid, err := owner(f.Owner, f.Group)
	if err != nil {
		return err
	}
	if err := h.Undo.MakeDir(filepath.Dir(path)); err != nil {
		return fault.New(err, "its directory can't be created")
	}
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return fault.New(nil, "its path exists and is not a file")
	}
	if err := h.Undo.Keep(path); err != nil {
		return fault.New(err, "the existing file can't be saved for restoring it later")
	}
	if f.Append {
		err = h.appendTo(id, path, f)
	} else {
		err = replace(path, f)
	}
	if err == nil {
		err = h.chown(path, uid, gid)
	}
	if err == nil {
		err = os.Chmod(path, f.Mode) // after chown, which clears setuid
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return fault.New(err, "writing it: %s", errno.Error())
	}
	return err
}

// replace writes a file atomically. If something is bind-mounted on the file, it can't be replaced, so replace
// overwrites its contents instead.
func replace(path string, file cloudconfig.File) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".capstan-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if err := fill(f, file); err != nil {
		return err
	}
	err = os.Rename(f.Name(), path)
	if !errors.Is(err, syscall.EBUSY) {
		return err
	}
	bound, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	return fill(bound, file)
}

// fill writes the content to f at its offset and closes f. If it returns nil, the content is on disk.
func fill(f *os.File, file cloudconfig.File) error {
	content, err := file.Open()
	if err == nil {
		_, err = io.Copy(f, content)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// appendTo appends to a file. It first notes the file's size, so that a repetition does not append twice.
func (h *Host) appendTo(id, path string, file cloudconfig.File) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size, known := h.sizeBefore(id)
	if !known || size > info.Size() {
		size = info.Size()
	}
	if err := h.Notes.Note(keyAppend, id+"="+strconv.FormatInt(size, 10)); err != nil {
		return err
	}
	if err := f.Truncate(size); err != nil {
		return err
	}
	if _, err := f.Seek(size, io.SeekStart); err != nil {
		return err
	}
	return fill(f, file)
}

func (h *Host) sizeBefore(id string) (int64, bool) {
	notes := h.Notes.Notes(keyAppend)
	for i := len(notes) - 1; i >= 0; i-- {
		if text, ok := strings.CutPrefix(notes[i], id+"="); ok {
			size, err := strconv.ParseInt(text, 10, 64)
			return size, err == nil
		}
	}
	return 0, false
}

// target returns the path to which the links at path lead, even if nothing exists there yet.
func target(path string) (string, error) {
	for range 40 {
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode()&fs.ModeSymlink == 0 {
			dir, err := filepath.EvalSymlinks(filepath.Dir(path))
			if err != nil {
				return path, nil // the directory does not exist yet
			}
			return filepath.Join(dir, filepath.Base(path)), nil
		}
		if err != nil {
			return path, nil // writing the file will report what is wrong
		}
		link, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(link) {
			link = filepath.Join(filepath.Dir(path), link)
		}
		path = link
	}
	return "", syscall.ELOOP
}

// owner returns the ids of a user and a group, given by name or number; empty means root.
func owner(name, group string) (uid, gid int, err error) {
	if name != "" && name != "root" {
		if uid, err = strconv.Atoi(name); err != nil {
			u, err := user.Lookup(name)
			if err != nil {
				return 0, 0, fault.New(err,
					"its owner doesn't exist; users are created after files, unless the file has defer: true")
			}
			uid, _ = strconv.Atoi(u.Uid)
		}
	}
	if group != "" && group != "root" {
		if gid, err = strconv.Atoi(group); err != nil {
			g, err := user.LookupGroup(group)
			if err != nil {
				return 0, 0, fault.New(err,
					"its group doesn't exist; groups are created after files, unless the file has defer: true")
			}
			gid, _ = strconv.Atoi(g.Gid)
		}
	}
	return uid, gid, nil
}
