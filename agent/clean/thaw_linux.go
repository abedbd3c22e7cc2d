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
// directory of its driver cgroupfs.
func thawPods(root string) error {
	var errs []error
	for _, name := range []string{"kubepods.slice", "kubepods"} {
		errs = append(errs, filepath.WalkDir(filepath.Join(root, name), thawGroup))
	}
	return errors.Join(errs...)
}

// thawGroup thaws the control group that a file belongs to. Groups may disappear at any time.
func thawGroup(path string, entry fs.DirEntry, err error) error {
	if err == nil && entry.Name() == "freezer.state" {
		var state []byte
		if state, err = os.ReadFile(path); err == nil && strings.TrimSpace(string(state)) != "THAWED" {
			err = os.WriteFile(path, []byte("THAWED"), 0)
		}
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}
