package layer

import (
	"archive/tar"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func attributesOf(h *tar.Header) attributes {
	return attributes{mode: fs.FileMode(h.Mode & 0o7777), time: timeOf(h)}
}

// timeOf returns the modification time, or the Unix epoch if the time is one that some file systems can't store.
func timeOf(h *tar.Header) time.Time {
	if h.ModTime.Before(time.Unix(0, 0)) || h.ModTime.After(time.Unix(1<<33, 0)) {
		return time.Unix(0, 0)
	}
	return h.ModTime
}

// dress sets an open file's owner, attributes, mode and time, in this order: a change of the owner clears capabilities
// and mode bits.
func (u *unpacker) dress(to int, at string, h *tar.Header) error {
	uid, gid := idsOf(h)
	if u.options.AllIDs {
		if err := unix.Fchown(to, uid, gid); err != nil {
			return wrap(err, at)
		}
	}
	capabilities, err := u.extended(to, h)
	if err != nil {
		return wrap(err, at)
	}
	if !u.options.AllIDs && (uid != 0 || gid != 0 || capabilities != nil) {
		u.result.Owners = append(u.result.Owners, Owner{Path: at, UID: uid, GID: gid, Capabilities: capabilities})
	}
	if err := unix.Fchmod(to, uint32(h.Mode&0o7777)); err != nil {
		return wrap(err, at)
	}
	stamp := unix.NsecToTimeval(timeOf(h).UnixNano())
	return wrap(unix.Futimes(to, []unix.Timeval{stamp, stamp}), at)
}

// extended sets a file's user attributes, except those that overlayfs reads, and its capabilities. If Options.AllIDs is
// false, it returns the capabilities instead of setting them.
func (u *unpacker) extended(to int, h *tar.Header) ([]byte, error) {
	var capabilities []byte
	for key, value := range h.PAXRecords {
		name, is := strings.CutPrefix(key, "SCHILY.xattr.")
		switch {
		case !is || strings.HasPrefix(name, "user.overlay."): // an image must not control overlayfs
		case name == "security.capability" && u.options.AllIDs:
			if err := unix.Fsetxattr(to, name, []byte(value), 0); err != nil {
				return nil, fmt.Errorf("setting %s: %w", name, err)
			}
		case name == "security.capability":
			capabilities = []byte(value)
		case strings.HasPrefix(name, "user.") && len(name) <= maxName && len(value) <= 4<<10:
			if err := unix.Fsetxattr(to, name, []byte(value), 0); err != nil && !errors.Is(err, unix.ENOTSUP) {
				return nil, fmt.Errorf("setting %s: %w", name, err)
			}
		}
	}
	return capabilities, nil
}

// own sets the owner of a file or, if Options.AllIDs is false, records the owner.
func (u *unpacker) own(fd int, base, at string, h *tar.Header) error {
	uid, gid := idsOf(h)
	if u.options.AllIDs {
		return wrap(unix.Fchownat(fd, base, uid, gid, unix.AT_SYMLINK_NOFOLLOW), at)
	}
	if uid != 0 || gid != 0 {
		u.result.Owners = append(u.result.Owners, Owner{Path: at, UID: uid, GID: gid})
	}
	return nil
}

// idsOf returns the owner of an entry. It replaces an id that hosts don't have with [Nobody].
func idsOf(h *tar.Header) (uid, gid int) {
	known := func(id int) int {
		if id < 0 || id > MaxID {
			return Nobody
		}
		return id
	}
	return known(h.Uid), known(h.Gid)
}

// finish sets the attributes of directories, deepest first, after everything in them has been written.
func (u *unpacker) finish() error {
	u.forget()
	paths := make([]string, 0, len(u.dirs))
	for dir := range u.dirs {
		paths = append(paths, dir)
	}
	slices.SortFunc(paths, func(a, b string) int { return strings.Compare(b, a) })
	for _, dir := range paths {
		fd, err := u.openDir(dir)
		if err != nil {
			return wrap(err, dir)
		}
		a := u.dirs[dir]
		stamp := unix.NsecToTimeval(a.time.UnixNano())
		err = errors.Join(unix.Fchmod(fd, uint32(a.mode)), unix.Futimes(fd, []unix.Timeval{stamp, stamp}))
		unix.Close(fd)
		if err != nil {
			return wrap(err, dir)
		}
	}
	return nil
}
