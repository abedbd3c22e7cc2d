// Package command runs the commands of bootstrap data and the tools that the agent needs.
//
// A command dies with the agent, and everything that it started carries a mark in its environment, by which the next
// agent finds what an interrupted command left running: so the same command never runs twice at a time.
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

// Path is the search path of commands, the host's own programs first.
const Path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

const (
	// DefaultLimit bounds a command that names no limit.
	DefaultLimit = 2 * time.Minute
	// grace is how long a command may take from SIGTERM to its end.
	grace = 5 * time.Second
	// drain is how long to wait, after a command's end, for output that is still in the pipe.
	drain = 500 * time.Millisecond
)

// Command is one command to run.
type Command struct {
	// Args are the program, found in Path, and its arguments. Required.
	Args []string
	// Stdin is what it reads; empty means nothing.
	Stdin string
	// Env are variables besides PATH, HOME and LANG, as NAME=VALUE.
	Env []string
	// Output gets what it writes to stdout and stderr; nil drops it.
	Output io.Writer
	// Limit bounds its run; default DefaultLimit.
	Limit time.Duration
	// Mark, if set, marks it and everything that it starts.
	Mark string
	// Started, if set, is called once it runs.
	Started func()
}

// StatusError reports a command that ended with an exit status other than 0.
type StatusError struct {
	// Program is the name of the program.
	Program string
	// Status is the exit status; 128 and the signal's number if a signal ended it.
	Status int
}

// Error names the program and how it ended.
func (e *StatusError) Error() string {
	return fmt.Sprintf("%s ended with exit status %d", e.Program, e.Status)
}

// ErrLimit is wrapped by the error of a command that took longer than its limit.
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

// Run runs the command and waits for its end. The error is a *StatusError if its exit status is not 0, wraps ErrLimit
// if it was ended because it took too long, and is ctx's error if ctx ended first; in these two cases everything that
// carries its mark has been ended too.
func (c Command) Run(ctx context.Context) error {
	path, err := Find(c.Args[0])
	if err != nil {
		return fmt.Errorf("running %s: %w; install it on the host", c.Args[0], err)
	}
	// The parent-death signal is bound to the thread that forks.
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
	// What it left running on purpose may hold the pipe open; its output goes on being copied, but nobody waits for that.
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

// output connects the command's output. The channel is closed once all output is copied. A pipe and not the log itself,
// because only so the log has a bound; an own pipe and not that of exec.Cmd, because the end of the command counts and
// not that of the pipe.
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

// wait waits for the command's end, and ends it when it takes too long or ctx ends.
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

// end ends the command's session leader and group, and all that carries its mark.
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

// markVariable is the environment variable that marks what commands of bootstrap data start.
const markVariable = "CAPSTAN_RUN"

// Marked reports whether a command of bootstrap data started the process, directly or not.
func Marked(p proc.Process) bool {
	env, err := p.Env()
	return err == nil && slices.ContainsFunc(env, func(entry string) bool {
		return strings.HasPrefix(entry, markVariable+"=")
	})
}

// EndMarked ends every process that carries a mark. It takes 20 seconds at most, and returns an error if some are left.
func EndMarked(ctx context.Context, mark string) error {
	variable := markVariable + "=" + mark
	_, err := proc.End(ctx, func(p proc.Process) bool { return p.HasEnv(variable) }, time.Second, 20*time.Second)
	return err
}
