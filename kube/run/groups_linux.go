package run

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// groupsDir is where programs look for their control groups.
const groupsDir = "/sys/fs/cgroup"

// openGroups opens the files through which processes join control groups.
func openGroups(dirs []string) ([]*os.File, error) {
	var files []*os.File
	for _, dir := range dirs {
		f, err := os.OpenFile(filepath.Join(dir, "cgroup.procs"), os.O_WRONLY, 0)
		if err != nil {
			closeAll(files...)
			return nil, fmt.Errorf("opening a control group: %w", err)
		}
		files = append(files, f)
	}
	return files, nil
}

// join puts a process into the control groups. Only the program is limited: its supervisor must survive to report how
// it ended.
func (s *starter) join(pid int) error {
	for _, f := range s.groups {
		if _, err := f.WriteString(strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("joining a control group: %w", err)
		}
	}
	return nil
}

// mountGroups shows the program its control groups. Version 1 has one mount for each controller; version 2 has a single
// mount.
func (t tree) mountGroups(groups []GroupMount, writable bool) error {
	if len(groups) == 0 {
		return nil
	}
	if len(groups) == 1 && len(groups[0].Names) == 0 {
		return t.mountGroup(groups[0].Source, groupsDir, writable)
	}
	if err := t.mount("tmpfs", groupsDir, kernelFlags, "mode=755,size=64k"); err != nil {
		return err
	}
	for _, g := range groups {
		for i, name := range g.Names {
			var err error
			if i == 0 {
				err = t.mountGroup(g.Source, path.Join(groupsDir, name), writable)
			} else {
				err = t.link(g.Names[0], path.Join(groupsDir, name))
			}
			if err != nil {
				return err
			}
		}
	}
	if writable {
		return nil
	}
	top, err := t.open(groupsDir, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(top)
	if err := readOnly(top, false); err != nil {
		return fmt.Errorf("making %s read-only: %w", groupsDir, err)
	}
	return nil
}

// mountGroup mounts one control group.
func (t tree) mountGroup(source, target string, writable bool) error {
	mount, err := clone(source)
	if err != nil {
		return err
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC}
	if !writable {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		unix.Close(mount)
		return fmt.Errorf("protecting the control group at %s: %w", target, err)
	}
	return t.attach(mount, target)
}
