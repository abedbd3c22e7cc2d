package baseline

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// mostNames bounds how many names of one directory are held. A larger one is read several times.
	mostNames = 1 << 15
	// mostItems bounds how many files of one directory are looked at before the walk goes on.
	mostItems = 1 << 10
)

// directory is one that is read, a part at a time.
type directory struct {
	// path is that on the host, full that in our root.
	path, full string
	taken      bool          // of walker.mu
	ready      chan struct{} // closed when a reader has read the first part
	items      []item        // the last part
	err        error         // of the directory itself
	failed     error         // of a file in it, or the end of the context

	most  int    // how many names are held
	names []name // that are left of the last look at the directory, in order
	last  string // the last of them, if there are more
	rest  bool   // there are more
}

// item is a file in a directory.
type item struct {
	entry
	counts bool
	within *directory // nil: no directory, or one to skip
}

// name is that of a file, with its type as the directory has it; 0: unknown.
type name struct {
	text string
	kind fs.FileMode
}

func newDirectory(path, full string) *directory {
	return &directory{path: path, full: full, ready: make(chan struct{}), most: mostNames}
}

// more reports whether there is a part that was not read yet.
func (d *directory) more() bool { return len(d.names) > 0 || d.rest }

// read looks at the next files of the directory.
func (d *directory) read(ctx context.Context, h Host, skipped map[string]bool) {
	d.items = nil
	fd, err := unix.Open(d.full, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		d.err = &fs.PathError{Op: "open", Path: d.full, Err: err}
		return
	}
	f := os.NewFile(uintptr(fd), d.full)
	defer f.Close()
	loose := d.loose()
	if len(d.names) == 0 {
		d.list(ctx, f, loose)
		if d.err != nil || d.failed != nil {
			return
		}
	}
	part := d.names[:min(len(d.names), mostItems)]
	d.items = make([]item, 0, len(part))
	for _, n := range part {
		path := join(d.path, n.text)
		full := path
		if d.full != d.path {
			full = join(d.full, n.text)
		}
		if skipped[path] {
			continue
		}
		if loose && n.kind == fs.ModeDir {
			d.items = append(d.items, item{within: newDirectory(path, full)})
			continue
		}
		e, err := h.entry(fd, n.text, path, full)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			d.failed = err
			return
		}
		i := item{entry: e, counts: counts(e)}
		if e.mode&unix.S_IFMT == unix.S_IFDIR {
			i.within = newDirectory(path, full)
		}
		if i.counts || i.within != nil {
			d.items = append(d.items, i)
		}
	}
	if d.names = d.names[len(part):]; len(d.names) == 0 {
		d.names = nil
	}
}

// tolerated returns the error of the directory, unless it was deleted meanwhile, is irrelevant, or is owned by a user
// unknown to a local host.
func (d *directory) tolerated() error {
	if errors.Is(d.err, fs.ErrNotExist) || errors.Is(d.err, fs.ErrPermission) || under(d.path, volatileTrees) {
		return nil
	}
	return d.err
}

// loose reports whether only privileged files count in the directory, whatever their names.
func (d *directory) loose() bool {
	return under(d.path, volatileTrees) && !under(d.path, systemTrees) &&
		!slices.ContainsFunc(systemTrees, func(t string) bool { return strings.HasPrefix(t, d.path+"/") })
}

// list finds the first names after the last one, in order.
func (d *directory) list(ctx context.Context, f *os.File, loose bool) {
	bound := "" // larger names are for another time
	d.rest = false
	for {
		entries, err := f.ReadDir(1024)
		for _, e := range entries {
			n := name{e.Name(), e.Type()}
			if n.text <= d.last || bound != "" && n.text > bound || loose && !mayCount(f, n) {
				continue
			}
			d.names = append(d.names, n)
			if len(d.names) == 2*d.most {
				bound = d.cut()
			}
		}
		if d.failed = ctx.Err(); d.failed != nil {
			return
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if d.err = err; err != nil {
			return
		}
	}
	d.last = d.cut()
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
func mayCount(directory *os.File, n name) bool {
	switch {
	case n.kind == fs.ModeDir || n.kind&fs.ModeDevice != 0:
		return true
	case n.kind != 0:
		return false // links, sockets and pipes give no rights
	}
	var stat unix.Statx_t
	if err := unix.Statx(int(directory.Fd()), n.text, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT,
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
