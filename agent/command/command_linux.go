// Package command runs the commands of bootstrap data and the tools that the agent needs.
//
// A command dies with the agent. Everything that the command started carries a mark in its environment. By this mark,
// an agent that was restarted finds what an interrupted command left running, so that no command ever runs twice at the
// same time.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/capstan-dev/capstan/internal/proc"
)

// Path is the search path of commands; the host's own programs come first.
const Path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

const (
	// DefaultLimit bounds a command that sets no limit.
	DefaultLimit = 2 * time.Minute
	// grace is how long a command may take to exit after SIGTERM.
	grace = 5 * time.Second
	// drain is how long to wait for output still in the pipe after a command has exited.
	drain = 500 * time.Millisecond
)

// Command is one command to run.
type Command struct {
	// Args are the program, which is looked up in Path, and its arguments. Required.
	Args []string
	// Stdin is the command's standard input; empty means none.
	Stdin string
	// Env are variables in addition to PATH, HOME and LANG, as NAME=VALUE.
	Env []string
	// Output receives the command's stdout and stderr; nil discards them.
	Output io.Writer
	// Limit bounds the command's running time; default DefaultLimit.
	Limit time.Duration
	// Mark, if set, marks the command and everything that it starts.
	Mark string
	// Started, if set, is called once the command runs.
	Started func()
}

// StatusError reports a command that exited with a status other than 0.
type StatusError struct {
	// Program is the name of the program.
	Program string
	// Status is the exit status, or 128 plus the signal's number if a signal killed it.
	Status int
}

// Error names the program and its exit status.
func (e *StatusError) Error() string {
	return fmt.Sprintf("%s ended with exit status %d", e.Program, e.Status)
}

// ErrLimit is wrapped by the error of a command that exceeded its limit.
var ErrLimit = errors.New("it took too long")

// Find returns the path of a program in Path.
func Find(program string) (string, error) {
	if strings.Contains(program, "/") {
		return program, nil
	}
	for dir := range strings.SplitSeq(Path, ":") {
		path := dir + "/" + program
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: %w in %s", program, exec.ErrNotFound, Path)
}

// Run runs the command and waits until it exits. The error is a *StatusError if the exit status is not 0, wraps
// ErrLimit if the command took too long, and is ctx's error if ctx ended first. In the last two cases Run has also
// stopped everything that carries the command's mark.
func (c Command) Run(ctx context.Context) error {
	path, err := Find(c.Args[0])
	if err != nil {
		return fmt.Errorf("running %s: %w; install it on the host", c.Args[0], err)
	}
	// The parent-death signal depends on the thread that forks.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	cmd := &exec.Cmd{Path: path, Args: c.Args, Env: c.environment(), Dir: "/"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if c.Stdin != "" {
		cmd.Stdin = strings.NewReader(c.Stdin)
		cmd.WaitDelay = grace
	}
	copied, err := c.output(cmd)
	if err != nil {
		return fmt.Errorf("running %s: %w", c.Args[0], err)
	}
	err = cmd.Start()
	if w, ok := cmd.Stdout.(*os.File); ok {
		w.Close()
	}
	if err != nil {
		return fmt.Errorf("running %s: %w", c.Args[0], err)
	}
	if c.Started != nil {
		c.Started()
	}
	err = c.wait(ctx, cmd)
	// Processes that the command left running on purpose may hold the pipe open. Their output is still copied, but
	// Run does not wait for it.
	timer := time.NewTimer(drain)
	defer timer.Stop()
	select {
	case <-copied:
	case <-timer.C:
	}
	return err
}

func (c Command) environment() []string {
	env := []string{"PATH=" + Path, "HOME=/root", "LANG=C.UTF-8"}
	if c.Mark != "" {
		env = append(env, markVariable+"="+c.Mark)
	}
	return append(env, c.Env...)
}

// output connects the command's output and returns a channel that is closed once all output is copied. It uses a pipe
// rather than the log file, because only then can it limit the log's size. It uses its own pipe rather than that of
// exec.Cmd, because Run must wait until the command exits, not until the pipe closes.
func (c Command) output(cmd *exec.Cmd) (<-chan struct{}, error) {
	copied := make(chan struct{})
	if c.Output == nil {
		close(copied)
		return copied, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = w, w
	go func() {
		defer close(copied)
		defer r.Close()
		_, _ = io.Copy(c.Output, r)
	}()
	return copied, nil
}

// wait waits until the command exits, and stops it if it takes too long or ctx ends.
func (c Command) wait(ctx context.Context, cmd *exec.Cmd) error {
	limit := c.Limit
	if limit <= 0 {
		limit = DefaultLimit
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-ended:
		return c.result(err)
	case <-timer.C:
		c.end(cmd, ended)
		return fmt.Errorf("running %s: %w: more than %s", c.Args[0], ErrLimit, limit)
	case <-ctx.Done():
		c.end(cmd, ended)
		return ctx.Err()
	}
}

func (c Command) result(err error) error {
	var exit *exec.ExitError
	if err == nil || errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}
	if !errors.As(err, &exit) {
		return fmt.Errorf("running %s: %w", c.Args[0], err)
	}
	status := exit.ExitCode()
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		status = 128 + int(ws.Signal())
	}
	return &StatusError{Program: c.Args[0], Status: status}
}

// end stops the command's session leader and process group, and everything that carries its mark.
func (c Command) end(cmd *exec.Cmd, ended <-chan error) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-ended
	}
	if c.Mark != "" {
		_ = EndMarked(context.Background(), c.Mark)
	}
}

// markVariable is the environment variable that marks processes started by commands of bootstrap data.
const markVariable = "CAPSTAN_RUN"

// Marked reports whether a command of bootstrap data started the process, directly or indirectly.
func Marked(p proc.Process) bool {
	env, err := p.Env()
	return err == nil && slices.ContainsFunc(env, func(entry string) bool {
		return strings.HasPrefix(entry, markVariable+"=")
	})
}

// EndMarked stops every process that carries a mark. It takes at most 20 seconds and returns an error if some are left.
func EndMarked(ctx context.Context, mark string) error {
	variable := markVariable + "=" + mark
	_, err := proc.End(ctx, func(p proc.Process) bool { return p.HasEnv(variable) }, time.Second, 20*time.Second)
	return err
}
