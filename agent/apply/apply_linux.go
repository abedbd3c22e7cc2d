// Package apply does what cloud-config asks for: files, users, time servers, disks and mounts.
//
// Each operation may be repeated after a crash at any point. What it changes is remembered, so that cleaning finds it:
// files through package originals, everything else as notes in the journal under the Key constants. Errors that may be
// shown are faults; they never quote the data.
package apply

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/capstan-dev/capstan/agent/command"
	"github.com/capstan-dev/capstan/agent/undo"
)

// Keys of notes about what was changed besides files.
const (
	// KeyUser and KeyGroup are users and groups that did not exist before.
	KeyUser, KeyGroup = "user", "group"
	// KeyMount is the mount point of a mount, KeySwap the device of a swap area, both in fstab.
	KeyMount, KeySwap = "mount", "swap"
	// KeyDisk is a disk that was partitioned, KeyFilesystem a device on which a file system was made.
	KeyDisk, KeyFilesystem = "disk", "filesystem"
)

// keyAppend is the size of a file before it was appended to.
const keyAppend = "append"

// Host is the host that is changed.
type Host struct {
	// Local is true on a host that is a namespace of another machine: it has neither disks nor a clock of its own, and
	// possibly only one user.
	Local bool
	// Log gets the output of commands and what is worth knowing.
	Log *command.Log
	// Undo keeps files as they were.
	Undo *undo.Keeper
	// Notes remember the rest; a journal.
	Notes undo.Notes
}

// run runs a command with its output in the log.
func (h *Host) run(ctx context.Context, args ...string) error {
	h.Log.Printf("+ %q", args)
	return command.Command{Args: args, Output: h.Log}.Run(ctx)
}

// chown changes the owner. Where the host has only one user, as in a user namespace with one id, all files are root's.
func (h *Host) chown(path string, uid, gid int) error {
	err := os.Lchown(path, uid, gid)
	if h.Local && (errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EPERM)) {
		h.Log.Printf("%s stays root's: this local host has no user %d:%d", path, uid, gid)
		return nil
	}
	return err
}

// restart restarts the first of the units that exists.
func (h *Host) restart(ctx context.Context, units ...string) error {
	var errs []error
	for _, unit := range units {
		err := h.run(ctx, "systemctl", "restart", unit)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return fmt.Errorf("restarting %v: %w", units, errors.Join(errs...))
}
