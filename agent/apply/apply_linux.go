// Package apply applies a cloud-config: files, users, time servers, disks and mounts.
//
// Each operation can be repeated after a crash at any point. The package records what it changes so that cleaning finds
// it: files through package undo, everything else as notes in the journal (package journal), under the keys that the
// Key constants name. Errors whose text may be shown are faults; they never quote the data.
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

// Keys of the notes about changes to things other than files.
const (
	// A note with KeyUser or KeyGroup names a user or a group that did not exist before.
	KeyUser, KeyGroup = "user", "group"
	// A note with KeyMount names a mount point, and one with KeySwap the device of a swap area; fstab lists both.
	KeyMount, KeySwap = "mount", "swap"
	// A note with KeyDisk names a disk that was partitioned, and one with KeyFilesystem a device that was formatted.
	KeyDisk, KeyFilesystem = "disk", "filesystem"
)

// keyAppend is the key of notes with the size of a file before data was appended to it.
const keyAppend = "append"

// Host is the host to change.
type Host struct {
	// Local is true on a host that is a namespace of another machine: it has no disks and no clock of its own, and
	// possibly only one user.
	Local bool
	// Log receives the output of commands and anything worth knowing.
	Log *command.Log
	// Undo keeps the originals of files.
	Undo *undo.Keeper
	// Notes record everything else; a journal implements them.
	Notes undo.Notes
}

// run runs a command and logs its output.
func (h *Host) run(ctx context.Context, args ...string) error {
	h.Log.Printf("+ %q", args)
	return command.Command{Args: args, Output: h.Log}.Run(ctx)
}

// chown changes the owner. If the host has only one user, as in a user namespace with one id, all files belong to root.
func (h *Host) chown(path string, uid, gid int) error {
	err := os.Lchown(path, uid, gid)
	if h.Local && (errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EPERM)) {
		h.Log.Printf("%s still belongs to root: this local host has no user %d:%d", path, uid, gid)
		return nil
	}
	return err
}

// restart restarts the first unit that exists.
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
