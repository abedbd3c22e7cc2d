package baseline

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// mostNames bounds how many names of one directory are held. A larger one is read several times.
	mostNames = 1 << 15
	// mostItems bounds how many files of one directory are looked at before the walk goes on.
	mostItems = 1 << 10
	// longestPath bounds the path of a directory, in bytes. The kernel takes longer ones than unix.PathMax in parts.
	longestPath = 16 << 10
)

// directory is one that is read, a part at a time. It has no path of its own, because thousands of them are held.
type directory struct {
	parent *directory // nil: the root directory of the host
	name   string
	length int // of the path

	taken  bool          // of walker.mu
	ready  chan struct{} // closed when a reader has read the first part
	items  []item        // the last part
	err    error         // of the directory itself
	failed error         // of a file in it, or the end of the context

	most  int    // how many names are held
	names []name // that are left of the last look at the directory, in order
	last  string // the last of them, if there are more
	rest  bool   // there are more
}

// item is a file in a directory.
type item struct {
	entry         // without its path
	name   string // in the directory
	counts bool
	within *directory // nil: no directory, or one to skip
}

// name is that of a file, with its type as the directory has it: unix.DT_UNKNOWN or another.
type name struct {
	text string
	kind byte
}

func newDirectory(parent *directory, name string) *directory {
	d := &directory{parent: parent, name: name, length: 1, ready: make(chan struct{}), most: mostNames}
	if parent != nil {
		d.length = parent.length + 1 + len(name)
	}
	return d
}

// path returns the path of the directory on the host.
func (d *directory) path() string {
	if d.parent == nil {
		return "/"
	}
	var names []string
	for ; d.parent != nil; d = d.parent {
		names = append(names, d.name)
	}
	slices.Reverse(names)
	return "/" + strings.Join(names, "/")
}

// more reports whether there is a part that was not read yet.
func (d *directory) more() bool { return len(d.names) > 0 || d.rest }

// reader reads directories, one at a time.
type reader struct {
	h       Host
	skipped skips
	entries [32 << 10]byte // as the kernel lists them
}

// read looks at the next files of the directory.
func (r *reader) read(ctx context.Context, d *directory) {
	d.items = nil
	path := d.path()
	full := filepath.Join(r.h.Root, path)
	if len(path) > longestPath {
		d.failed = fmt.Errorf("%.200s: a path of more than %d bytes is not checked", full, longestPath)
		return
	}
	fd, err := openDirectory(full)
	if err != nil {
		d.err = &fs.PathError{Op: "open", Path: full, Err: err}
		return
	}
	defer unix.Close(fd)
	within := treesOf(path)
	loose, skipped := within.loose(path), r.skipped[path]
	if len(d.names) == 0 {
		r.list(ctx, d, fd, loose)
		if d.err != nil || d.failed != nil {
			return
		}
	}
	part := d.names[:min(len(d.names), mostItems)]
	d.items = make([]item, 0, len(part))
	for _, n := range part {
		if slices.Contains(skipped, n.text) {
			continue
		}
		if loose && n.kind == unix.DT_DIR {
			d.items = append(d.items, item{name: n.text, within: newDirectory(d, n.text)})
			continue
		}
		trees := within
		if rooted[path] {
			trees = treesOf(join(path, n.text))
		}
		e, err := examine(fd, full, n.text, trees)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			d.failed = fmt.Errorf("looking at %s: %w", join(full, n.text), err)
			return
		}
		i := item{entry: e, name: n.text, counts: e.counts(trees)}
		if e.mode&unix.S_IFMT == unix.S_IFDIR {
			i.within = newDirectory(d, n.text)
		}
		if i.counts || i.within != nil {
			d.items = append(d.items, i)
		}
	}
	if d.names = d.names[len(part):]; len(d.names) == 0 {
		d.names = nil
	}
}

// openDirectory opens a directory, whatever the length of its path.
func openDirectory(path string) (int, error) {
	const flags = unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	at := unix.AT_FDCWD
	for {
		part, access := path, unix.O_RDONLY
		if path = ""; len(part) >= unix.PathMax {
			cut := strings.LastIndexByte(part[:unix.PathMax-1], '/')
			part, path, access = part[:cut], part[cut+1:], unix.O_PATH
		}
		fd, err := unix.Openat(at, part, access|flags, 0)
		if at != unix.AT_FDCWD {
			unix.Close(at)
		}
		if err != nil || path == "" {
			return fd, err
		}
		at = fd
	}
}

// tolerated returns the error of the directory, unless it was deleted meanwhile, is irrelevant, or is owned by a user
// unknown to a local host.
func (d *directory) tolerated() error {
	if errors.Is(d.err, fs.ErrNotExist) || errors.Is(d.err, fs.ErrPermission) || under(d.path(), volatileTrees) {
		return nil
	}
	return d.err
}

// list finds the first names after the last one, in order.
func (r *reader) list(ctx context.Context, d *directory, fd int, loose bool) {
	bound := "" // larger names are for another time
	d.rest = false
	for {
		if d.failed = ctx.Err(); d.failed != nil {
			return
		}
		n, err := unix.Getdents(fd, r.entries[:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			d.err = &fs.PathError{Op: "list", Path: d.path(), Err: err}
			return
		}
		if n == 0 {
			break
		}
		for left := r.entries[:n]; len(left) > 0; {
			var text []byte
			var kind byte
			text, kind, left = dirent(left)
			if string(text) <= d.last || bound != "" && string(text) > bound || string(text) == "." || string(text) == ".." {
				continue
			}
			n := name{string(text), kind}
			if loose && !mayCount(fd, n) {
				continue
			}
			d.names = append(d.names, n)
			if len(d.names) == 2*d.most {
				bound = d.cut()
			}
		}
	}
	d.last = d.cut()
}

// dirent splits the first of the kernel's entries of a directory off: 8 bytes for the inode, 8 for the position, 2 for
// the length of the entry, 1 for the type of the file, and the name, which ends with a zero.
func dirent(entries []byte) (name []byte, kind byte, left []byte) {
	const lengthAt, kindAt, nameAt = 16, 18, 19
	length := binary.NativeEndian.Uint16(entries[lengthAt:])
	name, _, _ = bytes.Cut(entries[nameAt:length], []byte{0})
	return name, entries[kindAt], entries[length:]
}

// cut sorts the names, keeps the first ones, and returns the last that is kept.
func (d *directory) cut() string {
	slices.SortFunc(d.names, func(a, b name) int { return strings.Compare(a.text, b.text) })
	if len(d.names) > d.most {
		clear(d.names[d.most:])
		d.names, d.rest = d.names[:d.most], true
	}
	if len(d.names) == 0 {
		return ""
	}
	return d.names[len(d.names)-1].text
}

// mayCount reports whether a file in a directory where only privileged files count may be one, or a directory.
func mayCount(directory int, n name) bool {
	switch n.kind {
	case unix.DT_DIR, unix.DT_BLK, unix.DT_CHR:
		return true
	case unix.DT_LNK, unix.DT_SOCK, unix.DT_FIFO:
		return false // they give no rights
	}
	var stat unix.Statx_t
	if err := unix.Statx(directory, n.text, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT,
		unix.STATX_TYPE|unix.STATX_MODE, &stat); err != nil {
		return !errors.Is(err, fs.ErrNotExist) // an error is found again, and told
	}
	// A program may have rights of its own by its capabilities.
	return stat.Mode&(unix.S_ISUID|unix.S_ISGID|0o111) != 0 || stat.Mode&unix.S_IFMT != unix.S_IFREG
}

func join(directory, name string) string {
	if directory == "/" {
		return directory + name
	}
	return directory + "/" + name
}
