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

// Isolate cuts the propagation of mounts from this mount namespace to others. The caller is the only user of a new mount namespace.
func Isolate() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	return nil
}

// Apply mounts the plan under root, which becomes a mount point itself. Call it in a mount namespace after Isolate.
func Apply(root string, plan []Mount) error {
	if err := unix.Mount(root, root, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting %s on itself: %w", root, err)
	}
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
	switch m.Kind {
	case Link:
		return link(root, m.Source, m.Target)
	case Text:
		return writeFile(root, m.Target, []byte(m.Source))
	case Folder:
		return mountPoint(root, m.Target, true)
	}
	target := filepath.Join(root, m.Target)
	if m.Kind == FS {
		if err := mountPoint(root, m.Target, true); err != nil {
			return err
		}
		flags := uintptr(unix.MS_NOSUID)
		if m.Source != "devpts" && m.Target != "/dev" {
			flags |= unix.MS_NODEV
		}
		if err := unix.Mount(m.Source, target, m.Source, flags, m.Data); err != nil {
			return err
		}
	} else {
		source := m.Source
		if m.Own {
			source = filepath.Join(root, source)
		}
		info, err := os.Stat(source)
		if err != nil {
			return err
		}
		if err := mountPoint(root, m.Target, info.IsDir()); err != nil {
			return err
		}
		if err := unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
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

// mountPoint makes the directory or file to mount on. It must not follow the host's own links out of the root: os.Root sees to that.
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

// readOnly holds for the mounts below target too.
func readOnly(target string) error {
	err := unix.MountSetattr(-1, target, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	if !errors.Is(err, unix.ENOSYS) {
		return err
	}
	return readOnlyOneByOne(target) // before Linux 5.12
}

func writable(target string) error {
	err := unix.MountSetattr(-1, target, 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
	if !errors.Is(err, unix.ENOSYS) {
		return err
	}
	return remount(target, 0)
}

func readOnlyOneByOne(target string) error {
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

// remount keeps the other flags: a user namespace may not drop those that it inherited.
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

// Pivot makes root the root of this mount namespace and lets go of the old one.
func Pivot(root string) error {
	if err := unix.Chdir(root); err != nil {
		return fmt.Errorf("entering %s: %w", root, err)
	}
	// With both in the same place no directory for the old root is needed.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("making %s the root: %w", root, err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("letting go of the machine's root: %w", err)
	}
	return unix.Chdir("/")
}
