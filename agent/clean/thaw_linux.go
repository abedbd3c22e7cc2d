package clean

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// freezer is where control groups of version 1 freeze processes. With version 2 it does not exist.
const freezer = "/sys/fs/cgroup/freezer"

// thaw lets the frozen processes of pods run, because a frozen process ignores even SIGKILL. runc freezes a container
// while it changes the container's limits. If runc is killed at that moment, the container stays frozen. With version 2
// of control groups, SIGKILL also ends frozen processes.
func (c *Cleaner) thaw(context.Context) error { return thawPods(freezer) }

// thawPods thaws the control groups of all pods: those below the slice of the kubelet's driver systemd, and below the
// directory of its driver cgroupfs. If a group can't be thawed, the others still are.
func thawPods(root string) error {
	var errs []error
	for _, name := range []string{"kubepods.slice", "kubepods"} {
		_ = filepath.WalkDir(filepath.Join(root, name), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Name() == "freezer.state" {
				err = thawGroup(path)
			}
			// Groups may disappear at any time.
			if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENODEV) {
				errs = append(errs, err)
			}
			return nil
		})
	}
	return errors.Join(errs...)
}

// thawGroup thaws the control group whose state is in the file at path, unless the group is already thawed.
func thawGroup(path string) error {
	state, err := os.ReadFile(path)
	if err != nil || strings.TrimSpace(string(state)) == "THAWED" {
		return err
	}
	return os.WriteFile(path, []byte("THAWED"), 0)
}
