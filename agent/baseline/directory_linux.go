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
	// mostNames bounds how many names of one directory are held in memory. A larger directory is read several times.
	mostNames = 1 << 15
	// mostItems bounds how many files of one directory are examined before the walk continues.
	mostItems = 1 << 10
	// longestPath bounds the path of a directory, in bytes. Paths longer than unix.PathMax are passed to the kernel in
	// parts.
	longestPath = 16 << 10
)

// directory is a directory that a walk reads a part at a time. It does not store its path, because thousands of
// directories are in memory.
type directory struct {
	parent *directory // nil: the root directory of the host
	name   string
	length int // of the path, in bytes

	taken  bool          // guarded by walker.mu
	ready  chan struct{} // closed once a reader has read the first part
	items  []item        // the last part
	err    error         // from reading the directory itself
	failed error         // from examining a file in it, or ctx's error

	most  int    // how many names to hold in memory
	names []name // left from the last read, in order
	last  string // the next read continues after this name
	rest  bool   // more names follow
}

// item is a file in a directory.
type item struct {
	entry         // without its path
	name   string // in the directory
	counts bool
	within *directory // nil: not a directory, or one to skip
}

// name is the name of a file, with the file's type as the directory lists it: one of the constants unix.DT_*, which
// include DT_UNKNOWN.
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

// more reports whether there is a part that has not been read yet.
func (d *directory) more() bool { return len(d.names) > 0 || d.rest }

// reader reads directories, one at a time.
type reader struct {
	h       Host
	skipped skips
	entries [32 << 10]byte // as the kernel lists them
}

// read examines the next files of the directory.
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

// tolerated returns the error of the directory, or nil if the directory was deleted meanwhile, is irrelevant, or is
// owned by a user unknown to a local host.
func (d *directory) tolerated() error {
	if errors.Is(d.err, fs.ErrNotExist) || errors.Is(d.err, fs.ErrPermission) || under(d.path(), volatileTrees) {
		return nil
	}
	return d.err
}

// list finds the names that come next after d.last, in order.
func (r *reader) list(ctx context.Context, d *directory, fd int, loose bool) {
	bound := "" // larger names are read later
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

// dirent splits off the first of a directory's entries as the kernel lists them: 8 bytes for the inode, 8 for the
// position, 2 for the length of the entry, 1 for the type of the file, and the name, which ends with a zero byte.
func dirent(entries []byte) (name []byte, kind byte, left []byte) {
	const lengthAt, kindAt, nameAt = 16, 18, 19
	length := binary.NativeEndian.Uint16(entries[lengthAt:])
	name, _, _ = bytes.Cut(entries[nameAt:length], []byte{0})
	return name, entries[kindAt], entries[length:]
}

// cut sorts the names, keeps the first ones, and returns the last one kept.
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

// mayCount reports whether a file may be a directory or a privileged file. It is for directories in which only
// privileged files count.
func mayCount(directory int, n name) bool {
	switch n.kind {
	case unix.DT_DIR, unix.DT_BLK, unix.DT_CHR:
		return true
	case unix.DT_LNK, unix.DT_SOCK, unix.DT_FIFO:
		return false // such files give no rights
	}
	var stat unix.Statx_t
	if err := unix.Statx(directory, n.text, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT,
		unix.STATX_TYPE|unix.STATX_MODE, &stat); err != nil {
		return !errors.Is(err, fs.ErrNotExist) // the method read finds any other error again and returns it
	}
	// A program may have rights of its own through file capabilities.
	return stat.Mode&(unix.S_ISUID|unix.S_ISGID|0o111) != 0 || stat.Mode&unix.S_IFMT != unix.S_IFREG
}

func join(directory, name string) string {
	if directory == "/" {
		return directory + name
	}
	return directory + "/" + name
}
