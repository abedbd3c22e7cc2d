package layer

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// openDir opens a directory of the layer by a path without symbolic links.
func (u *unpacker) openDir(dir string) (int, error) {
	if dir == "" {
		dir = "."
	}
	return unix.Openat2(u.root, dir, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
}

// enter opens the directory that a path of the archive leads to, and returns its path without links. It follows links
// of this layer and of the layers below, always within the image. It creates missing directories with the attributes
// that they have in the layers below. The caller must not close the descriptor.
func (u *unpacker) enter(dir string) (int, string, error) {
	if u.lastFD >= 0 && dir == u.lastDir {
		return u.lastFD, u.lastPath, nil
	}
	u.forget()
	resolved, err := u.resolve(dir)
	if err != nil {
		return -1, "", err
	}
	fd, err := u.openDir(resolved)
	if err != nil {
		return -1, "", wrap(err, dir)
	}
	u.lastFD, u.lastDir, u.lastPath = fd, dir, resolved
	return fd, resolved, nil
}

// resolve walks a path and creates the directories on it.
func (u *unpacker) resolve(dir string) (string, error) {
	at, links := "", 0
	rest := split(dir)
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		if part == ".." {
			if at == "" {
				return "", Refuse("%q goes through a link that leads out of the image", dir)
			}
			if at = path.Dir(at); at == "." {
				at = ""
			}
			continue
		}
		next := path.Join(at, part)
		target, err := u.step(at, part, next)
		if err != nil {
			return "", err
		}
		if target == "" {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", Refuse("%q goes through more than %d links", dir, maxLinks)
		}
		if strings.HasPrefix(target, "/") {
			at = ""
		}
		rest = append(split(target), rest...)
	}
	return at, nil
}

func split(p string) []string {
	var parts []string
	for part := range strings.SplitSeq(p, "/") {
		if part != "" && part != "." {
			parts = append(parts, part)
		}
	}
	return parts
}

// step makes sure that a directory exists. If part is a link, step returns its target instead.
func (u *unpacker) step(at, part, next string) (target string, err error) {
	fd, err := u.openDir(at)
	if err != nil {
		return "", wrap(err, at)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	err = unix.Fstatat(fd, part, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ENOENT):
		return u.implied(fd, part, next)
	case err != nil:
		return "", wrap(err, next)
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return "", nil
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		buffer := make([]byte, maxPath+1)
		n, err := unix.Readlinkat(fd, part, buffer)
		return string(buffer[:max(n, 0)]), wrap(err, next)
	case isWhiteout(&st):
		if _, err := u.makeDir(fd, part, next); err != nil {
			return "", err
		}
		u.dirs[next] = attributes{mode: 0o755, time: time.Unix(0, 0)}
		return "", u.opaque(fd, part)
	}
	return "", Refuse("%q is a file and a directory", next)
}

// implied creates a directory that the layer does not describe (yet), with its attributes in the layers below.
func (u *unpacker) implied(fd int, part, next string) (target string, err error) {
	as := attributes{mode: 0o755, time: time.Unix(0, 0)}
	uid, gid := 0, 0
	if len(u.options.Parents) > 0 {
		u.result.Depends = true
		if below, found := u.below(next); found {
			switch below.Mode & unix.S_IFMT {
			case unix.S_IFLNK:
				return below.target, nil
			case unix.S_IFDIR:
				as = attributes{mode: fs.FileMode(below.Mode & 0o7777), time: time.Unix(below.Mtim.Unix())}
				uid, gid = int(below.Uid), int(below.Gid)
			}
		}
	}
	if err := unix.Mkdirat(fd, part, 0o700); err != nil {
		return "", wrap(err, next)
	}
	u.dirs[next] = as
	if u.options.AllIDs {
		return "", wrap(unix.Fchownat(fd, part, uid, gid, unix.AT_SYMLINK_NOFOLLOW), next)
	}
	return "", nil
}

// found is a file of a layer below.
type found struct {
	unix.Stat_t
	target string // the target of a link
}

// below looks up a path without links in the merged layers below. Only the dock writes there.
func (u *unpacker) below(name string) (found, bool) {
	if u.hides(u.rootPath(), name) {
		return found{}, false
	}
	for i := len(u.options.Parents) - 1; i >= 0; i-- {
		parent := u.options.Parents[i]
		st, is, ends := lookIn(parent, name)
		if is {
			if st.Mode&unix.S_IFMT == unix.S_IFLNK {
				target, err := os.Readlink(filepath.Join(parent, name))
				if err != nil {
					return found{}, false
				}
				return found{st, target}, true
			}
			return found{Stat_t: st}, true
		}
		if ends {
			break
		}
	}
	return found{}, false
}

// rootPath returns a path to the layer itself.
func (u *unpacker) rootPath() string { return filepath.Join("/proc/self/fd", strconv.Itoa(u.root)) }

// hides reports whether a directory on the path of name hides the lower layers.
func (u *unpacker) hides(root, name string) bool {
	parts := split(name)
	for i := range parts {
		if isOpaque(filepath.Join(root, path.Join(parts[:i]...))) {
			return true
		}
	}
	return false
}

// lookIn looks up a name in one layer. The result ends is true if this layer hides the layers below at that name.
func lookIn(layer, name string) (st unix.Stat_t, is, ends bool) {
	parts := split(name)
	at := layer
	for i := 0; ; i++ {
		if unix.Lstat(at, &st) != nil {
			return st, false, ends
		}
		if i == len(parts) {
			if isWhiteout(&st) {
				return st, false, true
			}
			return st, true, false
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return st, false, true
		}
		if isOpaque(at) {
			ends = true
		}
		at = filepath.Join(at, parts[i])
	}
}

func isOpaque(dir string) bool {
	var value [1]byte
	n, err := unix.Getxattr(dir, Opaque, value[:])
	return err == nil && n == 1 && value[0] == 'y'
}
