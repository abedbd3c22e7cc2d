// Package tool implements the few system tools that kubeadm requires, for machines that lack them. It supports only
// what kubeadm and the kubelet of a local host use, and returns an error for everything else.
package tool

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Run runs a tool by name with its arguments and returns its exit code.
func Run(name string, args []string, stdout, stderr io.Writer) int {
	run, ok := map[string]func([]string, io.Writer) error{
		"mount": mount, "umount": umount, "cp": cp, "losetup": losetup,
	}[name]
	err := fmt.Errorf("there is no such tool")
	if ok {
		err = run(args, stdout)
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
		return 1
	}
	return 0
}

// options returns a flag set that returns errors instead of printing them.
func options() *flag.FlagSet {
	set := flag.NewFlagSet("", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	return set
}

// mountFlags maps mount options to kernel flags.
var mountFlags = map[string]uintptr{
	"ro": unix.MS_RDONLY, "nosuid": unix.MS_NOSUID, "nodev": unix.MS_NODEV, "noexec": unix.MS_NOEXEC,
	"remount": unix.MS_REMOUNT,
	"bind":    unix.MS_BIND, "rbind": unix.MS_BIND | unix.MS_REC, "relatime": unix.MS_RELATIME, "noatime": unix.MS_NOATIME,
	"private": unix.MS_PRIVATE, "rprivate": unix.MS_PRIVATE | unix.MS_REC, "shared": unix.MS_SHARED,
	"rshared": unix.MS_SHARED | unix.MS_REC,
	"slave":   unix.MS_SLAVE, "rslave": unix.MS_SLAVE | unix.MS_REC, "rw": 0, "defaults": 0,
}

// mount implements "mount", which lists mounts, and "mount [-t TYPE] [-o OPTIONS] [--bind] SOURCE TARGET".
func mount(args []string, stdout io.Writer) error {
	set := options()
	fstype := set.String("t", "", "")
	opts := set.String("o", "", "")
	bind := set.Bool("bind", false, "")
	if err := set.Parse(args); err != nil {
		return err
	}
	if set.NArg() == 0 {
		mounts, err := os.Open("/proc/self/mounts")
		if err != nil {
			return err
		}
		defer mounts.Close()
		_, err = io.Copy(stdout, mounts)
		return err
	}
	if set.NArg() != 2 {
		return errors.New("give a source and a target: fstab is not read")
	}
	flags, data := parseMountOptions(*opts)
	if *bind {
		flags |= unix.MS_BIND
	}
	if err := unix.Mount(set.Arg(0), set.Arg(1), *fstype, flags, data); err != nil {
		return fmt.Errorf("mounting %s at %s: %w", set.Arg(0), set.Arg(1), err)
	}
	return nil
}

// parseMountOptions separates options that are flags from those passed to the filesystem.
func parseMountOptions(opts string) (flags uintptr, data string) {
	var rest []string
	for opt := range strings.SplitSeq(opts, ",") {
		if flag, ok := mountFlags[opt]; ok {
			flags |= flag
		} else if opt != "" {
			rest = append(rest, opt)
		}
	}
	return flags, strings.Join(rest, ",")
}

// umount implements "umount [-l] [-f] TARGET...".
func umount(args []string, _ io.Writer) error {
	set := options()
	lazy := set.Bool("l", false, "")
	force := set.Bool("f", false, "")
	if err := set.Parse(args); err != nil {
		return err
	}
	if set.NArg() == 0 {
		return errors.New("give a target")
	}
	flags := 0
	if *lazy {
		flags |= unix.MNT_DETACH
	}
	if *force {
		flags |= unix.MNT_FORCE
	}
	var errs []error
	for _, target := range set.Args() {
		if err := unix.Unmount(target, flags); err != nil {
			errs = append(errs, fmt.Errorf("unmounting %s: %w", target, err))
		}
	}
	return errors.Join(errs...)
}

// cp implements "cp [-a | -r | -R] SOURCE TARGET". It does not preserve owners, times or hard links.
func cp(args []string, _ io.Writer) error {
	set := options()
	recursive := false
	for _, name := range []string{"a", "r", "R"} {
		set.BoolVar(&recursive, name, recursive, "")
	}
	if err := set.Parse(args); err != nil {
		return err
	}
	if set.NArg() != 2 {
		return errors.New("give one source and a target")
	}
	source, target := filepath.Clean(set.Arg(0)), set.Arg(1)
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if info.IsDir() && !recursive {
		return fmt.Errorf("%s is a directory: use -r", source)
	}
	if st, err := os.Stat(target); err == nil && st.IsDir() {
		target = filepath.Join(target, filepath.Base(source))
	}
	return filepath.WalkDir(source, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		to := target + strings.TrimPrefix(path, source)
		switch {
		case info.IsDir():
			return os.MkdirAll(to, info.Mode().Perm())
		case info.Mode()&os.ModeSymlink != 0:
			link, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(link, to)
		case info.Mode().IsRegular():
			return copyFile(path, to, info.Mode().Perm())
		default:
			return nil // skip sockets and pipes: they belong to their creators
		}
	})
}

func copyFile(from, to string, mode os.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// losetup lists no loop devices, because a local host has none. kubeadm only requires the program to exist.
func losetup(args []string, _ io.Writer) error {
	if len(args) == 0 || args[0] == "-a" || args[0] == "-j" {
		return nil
	}
	return errors.New("a local host has no loop devices")
}
