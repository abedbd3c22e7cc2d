package run

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLayers is how many layers fit into the options of one mount.
const maxLayers = 128

// mountOverlay mounts an overlay: the image's layers are the lower directories, and a directory in dir receives the
// changes.
func mountOverlay(dir, root string, layers []string) error {
	for _, name := range []string{rootDir, upperDir, workDir, emptyDir} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("making the container's directories: %w", err)
		}
	}
	if len(layers) == 0 {
		layers = []string{filepath.Join(dir, emptyDir)}
	}
	return overlay{layers, filepath.Join(dir, upperDir), filepath.Join(dir, workDir)}.mount(root)
}

// mountImage mounts an image, or a path in it, read-only in the tree. It first mounts the image below the directory
// temp. That mount is in the host's root and disappears with this mount namespace.
func (t tree) mountImage(temp string, m Mount) error {
	empty := filepath.Join(temp, emptyDir)
	root := filepath.Join(temp, rootDir)
	for _, dir := range []string{empty, root} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making the directories of an image: %w", err)
		}
	}
	// Without a directory for changes, the kernel requires at least two layers.
	if err := (overlay{layers: append([]string{empty}, m.Layers...)}).mount(root); err != nil {
		return err
	}
	image, err := openTree(root)
	if err != nil {
		return err
	}
	defer unix.Close(image.fd)
	source, err := image.open(path.Clean("/"+m.Source), unix.O_PATH)
	if err != nil {
		return fmt.Errorf("the image mounted at %s has no %s: %w", m.Target, m.Source, err)
	}
	defer unix.Close(source)
	mount, err := clone(fdPath(source))
	if err != nil {
		return err
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY, Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		unix.Close(mount)
		return fmt.Errorf("making the image at %s read-only: %w", m.Target, err)
	}
	return t.attach(mount, m.Target)
}

// overlay is a mount of layers, lowest first, with a directory for changes or without.
type overlay struct {
	layers      []string
	upper, work string
}

// mount mounts the overlay at root. Paths are passed as descriptors, which are short and free of characters that
// separate options.
func (o overlay) mount(root string) error {
	if len(o.layers) > maxLayers {
		return fmt.Errorf("the image has %d layers: at most %d can be mounted", len(o.layers), maxLayers)
	}
	var fds []int
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	open := func(path string) (string, error) {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return "", fmt.Errorf("opening a directory of the container's root: %w", &os.PathError{Op: "open",
				Path: path, Err: err})
		}
		fds = append(fds, fd)
		return fdPath(fd), nil
	}
	lower := make([]string, len(o.layers))
	for i, layer := range o.layers {
		path, err := open(layer)
		if err != nil {
			return err
		}
		lower[len(o.layers)-1-i] = path // the kernel expects the highest layer first
	}
	options := "lowerdir=" + strings.Join(lower, ":") + ",userxattr"
	if o.upper != "" {
		upper, err := open(o.upper)
		if err != nil {
			return err
		}
		work, err := open(o.work)
		if err != nil {
			return err
		}
		options += ",upperdir=" + upper + ",workdir=" + work
	}
	if err := unix.Mount("overlay", root, "overlay", 0, options); err != nil {
		return fmt.Errorf("mounting the image with overlayfs on %s (this requires Linux 5.11 or later, "+
			"and a directory on ext4, xfs, btrfs or tmpfs): %w",
			root, err)
	}
	return nil
}
