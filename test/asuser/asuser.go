// Package asuser runs a program again as an ordinary user: how local hosts are for somebody who is not root.
package asuser

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Variable is set for the process that runs as the user: who has no Go finds everything built.
const Variable = "CAPSTAN_AS_USER"

// Is reports whether this is that process.
func Is() bool { return os.Getenv(Variable) != "" }

// stopWait is how long a process may take to clean up when it is interrupted.
const stopWait = 2 * time.Minute

// Options say what runs.
type Options struct {
	// ID is that of the user, and of a group.
	ID int
	// Args are the arguments of this program, Dir its working directory.
	Args []string
	Dir  string
	// Writes are directories that the user may write to; they are made when missing.
	Writes    []string
	Out, Errs io.Writer
}

// Run runs this program as a user, with a home directory that is removed afterwards, and returns how it ended.
func Run(ctx context.Context, o Options) error {
	home, err := os.MkdirTemp("", "capstan-user-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	program := filepath.Join(home, "program") // the path of a program that go run has built is closed for others
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
	cmd.Dir = o.Dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home, Variable + "=1"}
	cmd.Stdout, cmd.Stderr = o.Out, o.Errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(o.ID), Gid: uint32(o.ID)}}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopWait
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("as user %d: %w", o.ID, err)
	}
	return nil
}

// own gives a directory with its files to a user.
func own(dir string, id int) error {
	return filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, id, id)
	})
}
