package run

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// clone copies the mount at source with everything below it. The copy is not mounted anywhere yet.
func clone(source string) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return -1, &os.PathError{Op: "bind", Path: source, Err: err}
	}
	return fd, nil
}

// attach mounts a clone at a path in the tree, and closes it.
func (t tree) attach(mount int, target string) error {
	defer unix.Close(mount)
	dir, err := isDir(mount)
	if err != nil {
		return err
	}
	at, err := t.ensure(target, dir)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return attachAt(mount, at, target)
}

func attachAt(mount, at int, target string) error {
	err := unix.MoveMount(mount, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	if err != nil {
		return &os.PathError{Op: "mount", Path: target, Err: err}
	}
	return nil
}

// bind mounts a path of the host at a path in the tree.
func (t tree) bind(source, target string) error {
	mount, err := clone(source)
	if err != nil {
		return err
	}
	return t.attach(mount, target)
}

// mount mounts a new file system at a path in the tree.
func (t tree) mount(kind, target string, flags uintptr, data string) error {
	at, err := t.ensure(target, true)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if err := unix.Mount(kind, fdPath(at), kind, flags, data); err != nil {
		return &os.PathError{Op: "mount " + kind, Path: target, Err: err}
	}
	return nil
}

// readOnly makes a mount read-only; if recursive is true, also those below it.
func readOnly(mount int, recursive bool) error {
	flags := uint(unix.AT_EMPTY_PATH)
	if recursive {
		flags |= unix.AT_RECURSIVE
	}
	return unix.MountSetattr(mount, "", flags, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

// volume is a requested mount, cloned while it still had the host's propagation. A mount of an image has no clone.
type volume struct {
	Mount
	fd int
}

// cloneVolumes clones the requested mounts. The caller has a copy of the host's mounts that still receives changes from
// the host.
func cloneVolumes(mounts []Mount) ([]volume, error) {
	var volumes []volume
	for _, m := range mounts {
		if len(m.Layers) > 0 {
			volumes = append(volumes, volume{m, -1})
			continue
		}
		fd, err := clone(m.Source)
		if m.Create && errors.Is(err, unix.ENOENT) {
			if err := makeSource(m.Source); err != nil {
				return volumes, fmt.Errorf("%s can't be mounted at %s: making it on the host: %w", m.Source,
					m.Target, err)
			}
			fd, err = clone(m.Source)
		}
		if errors.Is(err, unix.ENOENT) {
			return volumes, fmt.Errorf("%s can't be mounted at %s: there is no %s on the host", m.Source,
				m.Target, m.Source)
		}
		if err != nil {
			return volumes, err
		}
		volumes = append(volumes, volume{m, fd})
		if m.Propagation != Bidirectional {
			continue
		}
		if shared, err := isShared(m.Source); err != nil || !shared {
			return volumes,
				errors.Join(fmt.Errorf("the mount of %s at %s can't pass mounts to the host: "+
					"%s is not on a shared mount there",
					m.Source, m.Target, m.Source), err)
		}
	}
	return volumes, nil
}

// makeSource creates a directory on the host. A magic link, such as one in /proc, can't lead out of the host's root.
func makeSource(source string) error {
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: "/", Err: err}
	}
	defer unix.Close(root)
	dir, err := tree{root}.ensure(source, true)
	if errors.Is(err, unix.EXDEV) {
		return fmt.Errorf("the path goes through a link of /proc: %w", err)
	}
	if err != nil {
		return err
	}
	return unix.Close(dir)
}

// isShared reports whether a path is on a mount that belongs to a peer group.
func isShared(source string) (bool, error) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, source, 0, unix.STATX_MNT_ID, &st); err != nil {
		return false, &os.PathError{Op: "look at", Path: source, Err: err}
	}
	mounts, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return false, err
	}
	id := strconv.FormatUint(st.Mnt_id, 10)
	for line := range bytes.Lines(mounts) {
		fields := strings.Fields(string(line))
		if len(fields) > 6 && fields[0] == id {
			return strings.HasPrefix(fields[6], "shared:"), nil
		}
	}
	return false, nil
}

// mountVolume mounts a volume with the requested propagation.
func (t tree) mountVolume(v volume) error {
	attr := unix.MountAttr{}
	switch v.Propagation {
	case Private:
		attr.Propagation = unix.MS_PRIVATE
	case HostToContainer:
		attr.Propagation = unix.MS_SLAVE
	case Bidirectional: // keeps its propagation
	}
	if attr.Propagation != 0 {
		if err := unix.MountSetattr(v.fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
			return fmt.Errorf("setting the propagation of the mount at %s: %w", v.Target, err)
		}
	}
	if v.ReadOnly {
		if err := readOnly(v.fd, v.Recursive); err != nil {
			return fmt.Errorf("making the mount at %s read-only: %w", v.Target, err)
		}
	}
	return t.attach(v.fd, v.Target)
}
