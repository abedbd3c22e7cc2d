package run

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// beginRoot mounts the container's root, except /proc, in a new mount namespace of this thread. dir is the container's
// directory, and own are the ids of this process's user namespace. The thread must already be in the container's
// network namespace. finishRoot does the rest; the caller closes the tree.
func beginRoot(dir string, spec *Spec, own ids) (t tree, err error) {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return t, fmt.Errorf("making a mount namespace: %w", err)
	}
	volumes, err := cloneVolumes(spec.Mounts)
	if err != nil {
		return t, err // the clones disappear with the process
	}
	// From here on, no mount reaches the host.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return t, fmt.Errorf("isolating mounts from the host: %w", err)
	}
	root := filepath.Join(dir, rootDir)
	if err := mountOverlay(dir, root, spec.Layers); err != nil {
		return t, err
	}
	if t, err = openTree(root); err != nil {
		return t, err
	}
	if err := t.mountSys(spec); err != nil {
		return t, err
	}
	if err := t.mountGroups(spec.GroupMounts, spec.WritableSys); err != nil {
		return t, err
	}
	if err := t.mountDev(spec, own); err != nil {
		return t, err
	}
	for i, v := range volumes {
		if len(v.Layers) > 0 {
			err = t.mountImage(filepath.Join(dir, imagesDir, strconv.Itoa(i)), v.Mount)
		} else {
			err = t.mountVolume(v)
		}
		if err != nil {
			return t, err
		}
	}
	return t, nil
}

// openTree opens a directory as a root.
func openTree(root string) (tree, error) {
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return tree{}, &os.PathError{Op: "open", Path: root, Err: err}
	}
	return tree{fd}, nil
}

// finishRoot does what needs /proc, which must be mounted by now, and makes the tree the root of this thread and its
// children.
func (t tree) finishRoot(spec *Spec) error {
	if err := t.setSysctls(spec.Sysctls); err != nil {
		return err
	}
	for _, path := range spec.ReadOnly {
		if err := t.protect(path); err != nil {
			return err
		}
	}
	for _, path := range spec.Masked {
		if err := t.mask(path); err != nil {
			return err
		}
	}
	if dir := spec.Process.Dir; dir != "" {
		fd, err := t.ensure(dir, true)
		if err != nil {
			return fmt.Errorf("making the working directory: %w", err)
		}
		unix.Close(fd)
	}
	if spec.ReadOnlyRoot {
		if err := readOnly(t.fd, false); err != nil {
			return fmt.Errorf("making the root read-only: %w", err)
		}
	}
	return pivot(t.fd)
}

// kernelFlags are the mount flags of file systems that expose the kernel.
const kernelFlags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

// mountSys mounts /sys for this thread's network namespace.
func (t tree) mountSys(spec *Spec) error {
	flags := uintptr(kernelFlags | unix.MS_RDONLY)
	if spec.WritableSys {
		flags = kernelFlags
	}
	refused := t.mount("sysfs", "/sys", flags, "")
	if refused == nil {
		return nil
	}
	if err := t.bindSys(spec); err != nil {
		return errors.Join(refused, err)
	}
	return nil
}

// bindSys bind-mounts the host's /sys.
func (t tree) bindSys(spec *Spec) error {
	mount, err := clone("/sys")
	if err != nil {
		return err
	}
	if !spec.WritableSys {
		if err := readOnly(mount, true); err != nil {
			unix.Close(mount)
			return err
		}
	}
	return t.attach(mount, "/sys")
}

// setSysctls sets sysctls of the container's namespaces.
func (t tree) setSysctls(settings map[string]string) error {
	for name, value := range settings {
		path := "/proc/sys/" + strings.ReplaceAll(name, ".", "/")
		fd, err := t.open(path, unix.O_WRONLY)
		if err != nil {
			return fmt.Errorf("setting sysctl %s: %w", name, err)
		}
		_, err = unix.Write(fd, []byte(value))
		unix.Close(fd)
		if err != nil {
			return fmt.Errorf("setting sysctl %s to %q: %w", name, value, err)
		}
	}
	return nil
}

// protect makes a path read-only if it exists.
func (t tree) protect(path string) error {
	at, err := t.open(path, unix.O_PATH)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(at)
	mount, err := clone(fdPath(at))
	if err != nil {
		return fmt.Errorf("making %s read-only: %w", path, err)
	}
	defer unix.Close(mount)
	if err := readOnly(mount, true); err != nil {
		return fmt.Errorf("making %s read-only: %w", path, err)
	}
	return attachAt(mount, at, path)
}

// mask hides a path if it exists, behind an empty directory or file.
func (t tree) mask(path string) error {
	at, err := t.open(path, unix.O_PATH)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(at)
	dir, err := isDir(at)
	if err != nil {
		return err
	}
	if dir {
		if err := unix.Mount("tmpfs", fdPath(at), "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV,
			"size=4k"); err != nil {
			return fmt.Errorf("masking %s: %w", path, err)
		}
		return nil
	}
	mount, err := clone("/dev/null")
	if err != nil {
		return fmt.Errorf("masking %s: %w", path, err)
	}
	defer unix.Close(mount)
	return attachAt(mount, at, path)
}

// pivot makes the tree the root of this mount namespace and detaches the host's root from it.
func pivot(root int) error {
	if err := unix.Fchdir(root); err != nil {
		return fmt.Errorf("entering the container's root: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("making the container's root the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detaching the host's root: %w", err)
	}
	return unix.Chdir("/")
}
