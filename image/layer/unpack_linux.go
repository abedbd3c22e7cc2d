package layer

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// roomStep is the number of bytes written between two checks of the free space.
const roomStep = 16 << 20

// unpacker unpacks one layer.
type unpacker struct {
	options Options
	root    int // the layer's directory
	result  Result
	dirs    map[string]attributes
	buffer  []byte
	sinceQ  int64 // bytes written since the last check of the free space

	// The directory of the last entry; the next entry is usually in it too.
	lastDir  string
	lastPath string
	lastFD   int
}

// Unpack unpacks a layer's tar stream into dir, which must be empty, and reads the stream to its end. A [RefusedError]
// says what is wrong with the layer; dir then holds a part of it.
func Unpack(ctx context.Context, stream io.Reader, dir string, o Options) (Result, error) {
	o.Limits = o.Limits.Default()
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return Result{}, fmt.Errorf("opening %s: %w", dir, err)
	}
	u := &unpacker{options: o, root: root, dirs: map[string]attributes{}, buffer: make([]byte, 256<<10), lastFD: -1}
	defer u.close()
	u.dirs[""] = attributes{mode: 0o755, time: time.Unix(0, 0)}
	if below, found := u.below(""); found {
		u.dirs[""] = attributes{mode: fs.FileMode(below.Mode & 0o7777), time: time.Unix(below.Mtim.Unix())}
	}
	if err := u.all(ctx, stream); err != nil {
		return u.result, err
	}
	return u.result, u.finish()
}

func (u *unpacker) close() {
	u.forget()
	unix.Close(u.root)
}

// forget closes the directory that is kept open.
func (u *unpacker) forget() {
	if u.lastFD >= 0 {
		unix.Close(u.lastFD)
	}
	u.lastFD, u.lastDir, u.lastPath = -1, "", ""
}

func (u *unpacker) all(ctx context.Context, stream io.Reader) error {
	archive := tar.NewReader(stream)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return damaged(err)
		}
		if u.result.Entries++; u.result.Entries > u.options.Limits.Entries {
			return Refuse("the layer has more than %d files", u.options.Limits.Entries)
		}
		if err := u.entry(header, archive); err != nil {
			return err
		}
		if err := u.wrote(4 << 10); err != nil { // an entry needs an inode, or a block
			return err
		}
	}
	// The digest also covers what follows the end of the archive.
	_, err := io.CopyBuffer(io.Discard, stream, u.buffer)
	return damaged(err)
}

// damaged returns an error saying that the stream is not a tar archive, unless err says more.
func damaged(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, tar.ErrFieldTooLong) || errors.Is(err, io.ErrUnexpectedEOF) {
		return Refuse("the layer is damaged: %v", err)
	}
	return err
}

// entry unpacks one entry.
func (u *unpacker) entry(h *tar.Header, data io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := clean(h.Name)
	if err != nil {
		return err
	}
	if name == "" {
		if h.Typeflag != tar.TypeDir {
			return Refuse("the layer's root is not a directory")
		}
		u.dirs[""] = attributesOf(h)
		return u.own(u.root, ".", name, h)
	}
	dir, base := path.Split(name)
	fd, resolved, err := u.enter(strings.TrimSuffix(dir, "/"))
	if err != nil {
		return err
	}
	at := path.Join(resolved, base)
	if base == whiteoutOpaque {
		return u.opaque(fd, ".")
	}
	if strings.HasPrefix(base, whiteoutMeta) {
		return nil // metadata of a file system that nobody uses any more
	}
	if gone, is, err := removed(base); err != nil || is {
		if err != nil {
			return err
		}
		return u.remove(fd, gone)
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return u.directory(fd, base, at, h)
	case tar.TypeReg, tar.TypeGNUSparse, tar.TypeCont:
		return u.file(fd, base, at, h, data)
	case tar.TypeSymlink:
		return u.link(fd, base, at, h, func() error { return unix.Symlinkat(h.Linkname, fd, base) })
	case tar.TypeLink:
		return u.hardlink(fd, base, at, h)
	case tar.TypeFifo:
		return u.link(fd, base, at, h, func() error { return unix.Mkfifoat(fd, base, 0o600) })
	case tar.TypeChar, tar.TypeBlock:
		return Refuse("%q is a device: images must not have any, containers get theirs from the host", h.Name)
	}
	return Refuse("%q has the unknown type %q", h.Name, string(h.Typeflag))
}

// directory creates a directory, or updates an existing one.
func (u *unpacker) directory(fd int, base, at string, h *tar.Header) error {
	hides, err := u.makeDir(fd, base, at)
	if err != nil {
		return err
	}
	if hides {
		if err := u.opaque(fd, base); err != nil {
			return err
		}
	}
	u.dirs[at] = attributesOf(h)
	return u.own(fd, base, at, h)
}

// makeDir creates a directory unless it exists. The result hides is true if the layer had removed that name before: the
// directory must then hide its content in lower layers.
func (u *unpacker) makeDir(fd int, base, at string) (hides bool, err error) {
	err = unix.Mkdirat(fd, base, 0o700)
	if !errors.Is(err, unix.EEXIST) {
		return false, wrap(err, at)
	}
	var st unix.Stat_t
	if err := unix.Fstatat(fd, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return false, wrap(err, at)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return false, nil
	}
	if err := unix.Unlinkat(fd, base, 0); err != nil {
		return false, wrap(err, at)
	}
	return isWhiteout(&st), wrap(unix.Mkdirat(fd, base, 0o700), at)
}

func isWhiteout(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0 }

// opaque makes a directory hide its content in lower layers.
func (u *unpacker) opaque(fd int, base string) error {
	dir, err := unix.Openat(fd, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return wrap(err, base)
	}
	defer unix.Close(dir)
	if err := unix.Fsetxattr(dir, Opaque, []byte("y"), 0); err != nil {
		return fmt.Errorf("setting %s, which layers need: %w: use a home directory on ext4, xfs or btrfs", Opaque, err)
	}
	return nil
}

// remove hides a name of the lower layers. If this layer has the name, too, its entry stays, and a directory becomes
// opaque.
func (u *unpacker) remove(fd int, base string) error {
	var st unix.Stat_t
	err := unix.Fstatat(fd, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ENOENT):
		return wrap(unix.Mknodat(fd, base, unix.S_IFCHR|0o600, 0), base)
	case err != nil:
		return wrap(err, base)
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return u.opaque(fd, base)
	}
	return nil
}

// fresh calls create. If the name exists, fresh removes it and calls create again.
func (u *unpacker) fresh(fd int, base, at string, create func() error) error {
	err := create()
	if !errors.Is(err, unix.EEXIST) {
		return wrap(err, at)
	}
	if err := u.clear(fd, base, at); err != nil {
		return err
	}
	return wrap(create(), at)
}

// clear removes what an earlier entry of the layer created.
func (u *unpacker) clear(fd int, base, at string) error {
	err := unix.Unlinkat(fd, base, 0)
	if err == nil || !errors.Is(err, unix.EISDIR) {
		return wrap(err, at)
	}
	if err := removeTree(fd, base); err != nil {
		return wrap(err, at)
	}
	for dir := range u.dirs {
		if dir == at || strings.HasPrefix(dir, at+"/") {
			delete(u.dirs, dir)
		}
	}
	return nil
}

// removeTree removes a directory of the layer and everything in it.
func removeTree(fd int, base string) error {
	dir, err := unix.Openat(fd, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	names, err := namesIn(dir)
	for _, name := range names {
		if err = unix.Unlinkat(dir, name, 0); errors.Is(err, unix.EISDIR) {
			err = removeTree(dir, name)
		}
		if err != nil {
			break
		}
	}
	unix.Close(dir)
	if err != nil {
		return err
	}
	return unix.Unlinkat(fd, base, unix.AT_REMOVEDIR)
}

func namesIn(dir int) ([]string, error) {
	var names []string
	buffer := make([]byte, 32<<10)
	for {
		n, err := unix.ReadDirent(dir, buffer)
		if err != nil || n <= 0 {
			return names, err
		}
		_, _, names = unix.ParseDirent(buffer[:n], -1, names)
	}
}

// file unpacks a regular file.
func (u *unpacker) file(fd int, base, at string, h *tar.Header, data io.Reader) error {
	if h.Size > u.options.Limits.Bytes-u.result.Bytes {
		return Refuse("the layer holds more than %d MiB: %q alone says that it has %d bytes",
			u.options.Limits.Bytes>>20, h.Name, h.Size)
	}
	var to int
	err := u.fresh(fd, base, at, func() (err error) {
		flags := unix.O_CREAT | unix.O_EXCL | unix.O_WRONLY | unix.O_NOFOLLOW | unix.O_CLOEXEC
		to, err = unix.Openat(fd, base, flags, 0o600)
		return err
	})
	if err != nil {
		return err
	}
	err = u.copy(to, data)
	if err == nil {
		err = u.dress(to, at, h)
	}
	return errors.Join(err, wrap(unix.Close(to), at))
}

// copy writes data to an open file.
func (u *unpacker) copy(to int, data io.Reader) error {
	for {
		n, err := data.Read(u.buffer)
		for rest := u.buffer[:n]; len(rest) > 0; {
			wrote, werr := unix.Write(to, rest)
			if werr != nil {
				return fmt.Errorf("writing a file of the layer: %w", werr)
			}
			rest = rest[wrote:]
		}
		u.result.Bytes += int64(n)
		if room := u.wrote(int64(n)); room != nil {
			return room
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return damaged(err)
		}
	}
}

// wrote counts bytes written, and checks the free space from time to time.
func (u *unpacker) wrote(n int64) error {
	if u.sinceQ += n; u.sinceQ < roomStep || u.options.Room == nil {
		return nil
	}
	u.sinceQ = 0
	return u.options.Room()
}

// link creates a file that has no content of its own, such as a symbolic link.
func (u *unpacker) link(fd int, base, at string, h *tar.Header, create func() error) error {
	if len(h.Linkname) > maxPath {
		return Refuse("%q leads to a name of %d bytes", h.Name, len(h.Linkname))
	}
	if h.Typeflag == tar.TypeSymlink && h.Linkname == "" {
		return Refuse("the link %q leads nowhere", h.Name)
	}
	if err := u.fresh(fd, base, at, create); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeFifo {
		if err := unix.Fchmodat(fd, base, uint32(h.Mode&0o777), 0); err != nil {
			return wrap(err, at)
		}
	}
	if err := u.own(fd, base, at, h); err != nil {
		return err
	}
	stamp := unix.NsecToTimespec(timeOf(h).UnixNano())
	return wrap(unix.UtimesNanoAt(fd, base, []unix.Timespec{stamp, stamp}, unix.AT_SYMLINK_NOFOLLOW), at)
}

// hardlink adds another name to a file of the layer.
func (u *unpacker) hardlink(fd int, base, at string, h *tar.Header) error {
	name, err := clean(h.Linkname)
	if err != nil {
		return err
	}
	dir, target := path.Split(name)
	in, err := u.resolve(strings.TrimSuffix(dir, "/"))
	if err != nil {
		return err
	}
	from, err := u.openDir(in)
	if err == nil {
		defer unix.Close(from)
		var st unix.Stat_t
		if err = unix.Fstatat(from, target, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil && isWhiteout(&st) {
			err = unix.ENOENT
		}
	}
	if err != nil || target == "" {
		return Refuse("%q is a link to %q, which is not in its layer", h.Name, h.Linkname)
	}
	return u.fresh(fd, base, at, func() error { return unix.Linkat(from, target, fd, base, 0) })
}

func wrap(err error, at string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("unpacking %q: %w", at, err)
}
