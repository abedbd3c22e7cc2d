package baseline

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// entry is a file as a baseline records it.
type entry struct {
	path string
	// The fields mode to ctime are the metadata. digest is the digest of the contents, if a comparison covers them. For
	// a device, size is the device number.
	mode           uint32
	uid, gid       uint32
	size           int64
	mtime, ctime   int64
	digest, rights string // rights are the capabilities of a program, in hex
}

// differs reports whether a file has changed.
func (e entry) differs(now entry) bool {
	if e.mode != now.mode || e.uid != now.uid || e.gid != now.gid || e.rights != now.rights {
		return true
	}
	sameTimes := e.mtime == now.mtime && e.ctime == now.ctime
	switch {
	case e.mode&unix.S_IFMT == unix.S_IFDIR:
		return false // its contents are entries of their own
	case e.device() && e.size != now.size:
		return e.size != 0 || !sameTimes // earlier agents recorded no device numbers
	case e.device():
		return !sameTimes && !under(e.path, bootTrees)
	case e.digest != "" || now.digest != "":
		return e.digest != now.digest
	default:
		return e.size != now.size || !sameTimes
	}
}

// device reports whether a file is a device.
func (e entry) device() bool {
	kind := e.mode & unix.S_IFMT
	return kind == unix.S_IFBLK || kind == unix.S_IFCHR
}

// privileged reports whether a file is a device or gives privileges to whoever runs it.
func (e entry) privileged() bool {
	regular := e.mode&unix.S_IFMT == unix.S_IFREG
	return e.device() || regular && (e.mode&(unix.S_ISUID|unix.S_ISGID) != 0 || e.rights != "")
}

// examine returns the entry of the file called name in an open directory. The entry has no path. The parameter path is
// the directory's path, and the parameter in says which trees contain the file.
func examine(directory int, path, name string, in trees) (entry, error) {
	var stat unix.Statx_t
	if err := unix.Statx(directory, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS,
		&stat); err != nil {
		return entry{}, err
	}
	e := entry{
		mode: uint32(stat.Mode), uid: stat.Uid, gid: stat.Gid, size: int64(stat.Size),
		mtime: nanoseconds(stat.Mtime), ctime: nanoseconds(stat.Ctime),
	}
	if e.device() {
		e.size = int64(unix.Mkdev(stat.Rdev_major, stat.Rdev_minor))
	}
	var err error
	regular := e.mode&unix.S_IFMT == unix.S_IFREG
	if regular && e.mode&0o111 != 0 {
		e.rights = capabilities(directory, name, join(path, name))
	}
	switch {
	case regular && (in.digest || e.privileged()):
		if e.digest, err = digestAt(directory, name); errors.Is(err, fs.ErrPermission) {
			e.digest, err = "unreadable", nil // root can read everything else
		}
	case e.mode&unix.S_IFMT == unix.S_IFLNK && in.digest:
		e.digest, err = linkAt(directory, name)
	}
	return e, err
}

func nanoseconds(t unix.StatxTimestamp) int64 { return t.Sec*int64(time.Second) + int64(t.Nsec) }

// capabilities returns the capabilities that a program gets when it starts, in hex. If path is too long for the kernel,
// the program is found by its name in an open directory.
func capabilities(directory int, name, path string) string {
	if len(path) >= unix.PathMax {
		path = "/proc/self/fd/" + strconv.Itoa(directory) + "/" + name
	}
	var value [64]byte
	n, err := unix.Lgetxattr(path, "security.capability", value[:])
	if err != nil || n == 0 {
		return ""
	}
	return hex.EncodeToString(value[:n])
}

// digest returns the digest of the file at path.
func digest(path string) (string, error) {
	sum, err := digestAt(unix.AT_FDCWD, path)
	if err != nil {
		return "", &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return sum, nil
}

// digestAt returns the digest of the file called name in an open directory. It never follows a link, and it does not
// block even if a pipe has replaced the file.
func digestAt(directory int, name string) (string, error) {
	fd, err := unix.Openat(directory, name,
		unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return "", err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// linkAt returns the digest of a link's target.
func linkAt(directory int, name string) (string, error) {
	var to [unix.PathMax]byte
	n, err := unix.Readlinkat(directory, name, to[:])
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(to[:n])
	return hex.EncodeToString(sum[:]), nil
}

// describe lists changes, privileged files first. It omits the ordinary contents of a directory that is new or gone.
func describe(changes []change) []string {
	var first, others []string
	var within string // the last directory that is new or gone
	for _, c := range changes {
		switch {
		case c.now != nil && c.now.privileged():
			first = append(first, c.String())
		case within != "" && strings.HasPrefix(c.path, within+"/"):
		default:
			others = append(others, c.String())
			if c.before == nil && c.now.mode&unix.S_IFMT == unix.S_IFDIR ||
				c.now == nil && c.before.mode&unix.S_IFMT == unix.S_IFDIR {
				within = c.path
			}
		}
	}
	return append(first, others...)
}

// String describes the change.
func (c change) String() string {
	switch {
	case c.now == nil:
		return fmt.Sprintf("path %s, which is gone", c.path)
	case c.now.privileged() && c.now.mode&unix.S_IFMT == unix.S_IFREG:
		return fmt.Sprintf(
			"path %s, a program with rights of its own (mode %#o, uid %d)",
			c.path,
			c.now.mode&0o7777,
			c.now.uid,
		)
	case c.now.privileged():
		return fmt.Sprintf("path %s, a device", c.path)
	case c.before == nil:
		return fmt.Sprintf("path %s, which was not there before", c.path)
	case c.before.mode != c.now.mode:
		return fmt.Sprintf("path %s, whose mode was %#o and is %#o", c.path, c.before.mode&0o7777, c.now.mode&0o7777)
	case c.before.uid != c.now.uid || c.before.gid != c.now.gid:
		return fmt.Sprintf("path %s, whose owner was %d:%d and is %d:%d",
			c.path, c.before.uid, c.before.gid, c.now.uid, c.now.gid)
	default:
		return fmt.Sprintf("path %s, which is not as it was before", c.path)
	}
}
