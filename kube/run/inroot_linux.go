package run

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"
)

// tree is a directory that becomes a container's root. Paths in the tree come from the image; links in it never lead
// out of the tree.
type tree struct{ fd int }

// fdPath returns a path to an open descriptor's file.
func fdPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// open opens a path in the tree.
func (t tree) open(name string, flags int) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: unix.RESOLVE_IN_ROOT}
	for {
		fd, err := unix.Openat2(t.fd, name, &how)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue // something was renamed meanwhile
		}
		if err != nil {
			return -1, &os.PathError{Op: "open", Path: name, Err: err}
		}
		return fd, nil
	}
}

// ensure opens a directory or file to mount on. If it is missing, ensure creates it and all directories on the way.
func (t tree) ensure(name string, dir bool) (int, error) {
	name = path.Clean("/" + name)
	fd, err := t.open(name, unix.O_PATH)
	if !errors.Is(err, unix.ENOENT) {
		return fd, err
	}
	parent, err := t.ensure(path.Dir(name), true)
	if err != nil {
		return -1, err
	}
	defer unix.Close(parent)
	base := path.Base(name)
	if dir {
		err = unix.Mkdirat(parent, base, 0o755)
	} else {
		var file int
		if file, err = unix.Openat(parent, base, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC,
			0o644); err == nil {
			unix.Close(file)
		}
	}
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, &os.PathError{Op: "make", Path: name, Err: err}
	}
	if fd, err = t.open(name, unix.O_PATH); errors.Is(err, unix.ENOENT) {
		return -1, fmt.Errorf("%s is a link to something that does not exist: nothing can be mounted there", name)
	}
	return fd, err
}

// link creates a symbolic link unless something is already there.
func (t tree) link(to, name string) error {
	parent, err := t.ensure(path.Dir(name), true)
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	if err := unix.Symlinkat(to, parent, path.Base(name)); err != nil && !errors.Is(err, unix.EEXIST) {
		return &os.PathError{Op: "link", Path: name, Err: err}
	}
	return nil
}

// isDir reports whether an open path is a directory.
func isDir(fd int) (bool, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, err
	}
	return st.Mode&unix.S_IFMT == unix.S_IFDIR, nil
}
