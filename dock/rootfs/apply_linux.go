package rootfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// Isolate stops mounts from propagating out of this mount namespace. The caller must be the only user of a new mount
// namespace.
func Isolate() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	return nil
}

// Share makes the directory root a mount point, makes the mounts of plan below it, and makes it this thread's working
// directory. The thread must be in its own mount namespace, after Isolate, and in the user namespace of the dock, not
// in that of the host. If ids, an open user namespace, is given, owners of files in that directory are mapped to that
// namespace: what belongs to user 0 on disk belongs to user 0 of the namespace, and so on for its other ids.
func Share(root string, ids *os.File, plan []Mount) error {
	// Do this before mounting root with other ids: afterwards, nobody outside the host can create files there.
	for _, m := range plan {
		if err := prepare(root, m); err != nil && !m.Optional {
			return fmt.Errorf("completing the host's root: %s: %w", m, err)
		}
	}
	if err := mountRoot(root, ids); err != nil {
		return err
	}
	for _, m := range plan {
		if m.Kind != Bind {
			continue
		}
		if err := share(root, ids, m); err != nil && !m.Optional {
			return fmt.Errorf("completing the host's root: %s: %w", m, err)
		}
	}
	return wrap(unix.Chdir(root), "entering %s", root)
}

// share mounts one thing that the host sees of the machine.
func share(root string, ids *os.File, m Mount) error {
	if !m.HostIDs {
		return attach(root, m)
	}
	attributes := uint64(unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOSUID)
	if err := mountIDs(m.Source, filepath.Join(root, m.Target), ids, attributes); err != nil {
		return err
	}
	return readOnly(filepath.Join(root, m.Target))
}

// mountRoot mounts root on itself, without device files, and with other ids if any are given.
func mountRoot(root string, ids *os.File) error {
	return wrap(mountIDs(root, root, ids, unix.MOUNT_ATTR_NODEV), "mounting %s on itself", root)
}

// mountIDs mounts a directory, with other ids if any are given.
func mountIDs(source, target string, ids *os.File, attributes uint64) error {
	tree, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	attr := unix.MountAttr{Attr_set: attributes}
	if ids != nil {
		attr.Attr_set |= unix.MOUNT_ATTR_IDMAP
		attr.Userns_fd = uint64(ids.Fd())
	}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr); err != nil &&
		(ids != nil || !errors.Is(err, unix.ENOSYS)) {
		return fmt.Errorf("giving %s ids of its own: %w: its file system or the kernel does not support that; use a "+
			"home directory on ext4 or xfs (Linux 5.12 or later) or btrfs (Linux 5.15 or later), or run as an ordinary user",
			source, err)
	}
	return unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}

// Apply makes the mounts of plan below the working directory, and makes that directory the root of the mount namespace.
// PID 1 of the host calls it in a mount namespace after Isolate. Apply uses no path to the directory, because the host
// may lack the permission to follow it. Mounts that Share created there stay locked.
func Apply(plan []Mount) error {
	// Mounts that come from outside can't become the root, but a copy with everything below can.
	tree, err := unix.OpenTree(unix.AT_FDCWD, ".", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return fmt.Errorf("copying the mounts of the host's root: %w", err)
	}
	defer unix.Close(tree)
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, ".", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mounting the host's root: %w", err)
	}
	if err := unix.Fchdir(tree); err != nil {
		return fmt.Errorf("entering the host's root: %w", err)
	}
	if err := applyAll(".", plan); err != nil {
		return err
	}
	return pivot()
}

func applyAll(root string, plan []Mount) error {
	for _, m := range plan {
		if err := apply(root, m); err != nil && !m.Optional {
			return fmt.Errorf("completing the host's root: %s: %w", m, err)
		}
	}
	return nil
}

func apply(root string, m Mount) error {
	err := applyOne(root, m)
	if err == nil || len(m.Instead) == 0 {
		return err
	}
	for _, i := range m.Instead {
		if err2 := apply(root, i); err2 != nil {
			return errors.Join(err, err2)
		}
	}
	return nil
}

func applyOne(root string, m Mount) error {
	if err := prepare(root, m); err != nil {
		return err
	}
	return attach(root, m)
}

// prepare creates what needs no mount, and the mount points for the rest.
func prepare(root string, m Mount) error {
	switch m.Kind {
	case Link:
		return link(root, m.Source, m.Target)
	case Text:
		return writeFile(root, m.Target, []byte(m.Source))
	case Directory, FS:
		return mountPoint(root, m.Target, true)
	}
	info, err := os.Stat(m.source(root))
	if err != nil {
		return err
	}
	return mountPoint(root, m.Target, info.IsDir())
}

// source returns what a bind mount shows.
func (m Mount) source(root string) string {
	if m.Own {
		return filepath.Join(root, m.Source)
	}
	return m.Source
}

// attach mounts m, if it is a mount, on its existing mount point.
func attach(root string, m Mount) error {
	target := filepath.Join(root, m.Target)
	switch m.Kind {
	case FS:
		flags := uintptr(unix.MS_NOSUID)
		if m.Source != "devpts" && m.Target != "/dev" {
			flags |= unix.MS_NODEV
		}
		if err := unix.Mount(m.Source, target, m.Source, flags, m.Data); err != nil {
			return err
		}
	case Bind:
		if err := unix.Mount(m.source(root), target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return err
		}
	}
	switch {
	case m.ReadOnly:
		return readOnly(target)
	case m.Writable:
		return writable(target)
	}
	return nil
}

// mountPoint creates the directory or file to mount on. os.Root keeps it from following the host's links out of the
// root.
func mountPoint(root, target string, dir bool) error {
	r, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer r.Close()
	name := relative(target)
	if dir {
		return r.MkdirAll(name, 0o755)
	}
	if _, err := r.Lstat(name); err == nil {
		return nil
	}
	if err := r.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := r.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

func link(root, to, at string) error {
	r, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer r.Close()
	name := relative(at)
	if have, err := r.Readlink(name); err == nil && have == to {
		return nil
	}
	if err := r.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if err := r.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return r.Symlink(to, name)
}

func writeFile(root, at string, data []byte) error {
	r, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer r.Close()
	return r.WriteFile(relative(at), data, 0o644)
}

func relative(path string) string { return strings.TrimPrefix(filepath.Clean(path), "/") }

// readOnly makes target and all mounts below it read-only.
func readOnly(target string) error {
	err := unix.MountSetattr(unix.AT_FDCWD, target, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	if !errors.Is(err, unix.ENOSYS) {
		return err
	}
	return readOnlyOneByOne(target) // before Linux 5.12
}

func writable(target string) error {
	err := unix.MountSetattr(unix.AT_FDCWD, target, 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
	if !errors.Is(err, unix.ENOSYS) {
		return err
	}
	return remount(target, 0)
}

func readOnlyOneByOne(target string) error {
	target, err := filepath.Abs(target)
	if err != nil {
		return err
	}
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(target))
	if err != nil {
		return err
	}
	for _, m := range mounts {
		if err := remount(m.Mountpoint, unix.MS_RDONLY); err != nil {
			return fmt.Errorf("making %s read-only: %w", m.Mountpoint, err)
		}
	}
	return nil
}

// remount keeps the other flags: a user namespace may not drop inherited ones.
func remount(target string, flags uintptr) error {
	var st unix.Statfs_t
	if err := unix.Statfs(target, &st); err != nil {
		return err
	}
	for have, flag := range map[int64]uintptr{
		unix.ST_NOSUID: unix.MS_NOSUID, unix.ST_NODEV: unix.MS_NODEV, unix.ST_NOEXEC: unix.MS_NOEXEC,
		unix.ST_NOATIME: unix.MS_NOATIME, unix.ST_NODIRATIME: unix.MS_NODIRATIME, unix.ST_RELATIME: unix.MS_RELATIME,
	} {
		if int64(st.Flags)&have != 0 {
			flags |= flag
		}
	}
	return unix.Mount("", target, "", unix.MS_REMOUNT|unix.MS_BIND|flags, "")
}

// pivot makes the working directory the root of this mount namespace and detaches the old root.
func pivot() error {
	// With both at the same path, the old root needs no separate directory.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("making the host's root the root of its mount namespace: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detaching the machine's root: %w", err)
	}
	return unix.Chdir("/")
}
