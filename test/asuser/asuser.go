// Package asuser runs a program again as an ordinary user, to test how local hosts behave for somebody who is not root.
package asuser

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// Variable is set in the environment of the process that runs as the user. That user may have no Go, so the program
// finds everything already built.
const Variable = "CAPSTAN_AS_USER"

// Is reports whether this process is the one that runs as the user.
func Is() bool { return os.Getenv(Variable) != "" }

// subordinate assigns subordinate ids to a user, in this mount namespace only, and becomes that user.
const subordinate = `set -e
mount --bind "$1" /etc/subuid
mount --bind "$1" /etc/subgid
id=$2
shift 2
exec setpriv --reuid "$id" --regid "$id" --clear-groups "$@"
`

// firstSubordinate is the first of the 65,536 subordinate ids, above those that distributions and docks assign.
const firstSubordinate = 1_700_000_000

// stopWait is how long a process may take to clean up when it is interrupted.
const stopWait = 2 * time.Minute

// Options say what to run.
type Options struct {
	// ID is the id of the user, and of the user's group.
	ID int
	// Subordinate gives the user 65,536 subordinate ids. It needs newuidmap and newgidmap (Debian's package uidmap),
	// the files /etc/subuid and /etc/subgid, and an account of the user.
	Subordinate bool
	// Args are the arguments of this program; Dir is its working directory.
	Args []string
	Dir  string
	// Writes are directories that the user may write to; missing ones are created.
	Writes    []string
	Out, Errs io.Writer
}

// Run runs this program as a user, with a home directory that is removed afterwards. It returns nil if the program
// succeeded.
func Run(ctx context.Context, o Options) error {
	home, err := os.MkdirTemp("", "capstan-user-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	program := filepath.Join(home, "program") // other users can't reach a program that go run has built
	data, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(program, data, 0o755)
	}
	if err != nil {
		return fmt.Errorf("preparing for user %d: %w", o.ID, err)
	}
	for _, dir := range append([]string{home}, o.Writes...) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("preparing for user %d: %w", o.ID, err)
		}
		if err := own(dir, o.ID); err != nil {
			return fmt.Errorf("preparing for user %d: %w", o.ID, err)
		}
	}
	cmd := exec.CommandContext(ctx, program, o.Args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(o.ID), Gid: uint32(o.ID)}}
	if o.Subordinate {
		if cmd, err = o.withIDs(ctx, home, program); err != nil {
			return fmt.Errorf("preparing for user %d: %w", o.ID, err)
		}
	}
	cmd.Dir = o.Dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home, Variable + "=1"}
	cmd.Stdout, cmd.Stderr = o.Out, o.Errs
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopWait
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("as user %d: %w", o.ID, err)
	}
	return nil
}

// withIDs returns the command that runs the program as the user with subordinate ids.
func (o Options) withIDs(ctx context.Context, home, program string) (*exec.Cmd, error) {
	for _, needed := range []string{"newuidmap", "newgidmap", "setpriv", "unshare"} {
		if _, err := exec.LookPath(needed); err != nil {
			return nil, fmt.Errorf("subordinate ids need Debian's packages uidmap and util-linux: %w", err)
		}
	}
	account, err := user.LookupId(strconv.Itoa(o.ID))
	if err != nil {
		return nil, fmt.Errorf("subordinate ids need an account: %w", err)
	}
	for _, file := range []string{"/etc/subuid", "/etc/subgid"} {
		if _, err := os.Stat(file); err != nil {
			return nil, fmt.Errorf("subordinate ids need the file, which may be empty: %w", err)
		}
	}
	ids := filepath.Join(home, "ids")
	line := fmt.Sprintf("%s:%d:65536\n", account.Username, firstSubordinate)
	if err := os.WriteFile(ids, []byte(line), 0o644); err != nil {
		return nil, err
	}
	args := []string{"--mount", "sh", "-c", subordinate, "sh", ids, strconv.Itoa(o.ID), program}
	return exec.CommandContext(ctx, "unshare", append(args, o.Args...)...), nil
}

// own makes a user the owner of a directory and its files.
func own(dir string, id int) error {
	return filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, id, id)
	})
}
