// Package process runs child processes and never leaves one behind.
//
// A [Process] says what to run. [Process.Run] starts the child, blocks until it exits and always reaps it. When the
// context is done, it stops the child, first with SIGTERM, then with SIGKILL. [Process.Keep] does the same
// indefinitely: it restarts a child that dies, with growing pauses. A child dies with its parent, even if the parent is
// killed, and its log is limited in size.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/capstan-dev/capstan/internal/backoff"
)

// Defaults for fields of [Process] that are zero.
const (
	DefaultGrace        = 10 * time.Second
	DefaultStartTimeout = 60 * time.Second
	DefaultLogLimit     = 8 << 20
)

// tailLines is the number of log lines that an [ExitError] shows.
const tailLines = 12

// Process configures one child.
type Process struct {
	// Name is the child's name in messages. Required.
	Name string
	// Path is the executable. Required.
	Path string
	// Args are the arguments, starting with argv[0]. Empty means only Path.
	Args []string
	// Env is the complete environment of the child. Nil means this process's environment.
	Env []string
	// Dir is the working directory. Empty means this process's directory.
	Dir string
	// Log is the file to which the child's stdout and stderr are appended. If it is empty, the output is dropped,
	// except for the last lines, which are shown when the child dies.
	Log string
	// LogLimit is the size in bytes at which Log is moved to Log+".1", replacing an older one.
	LogLimit int64
	// Files are inherited by the child as descriptors 3, 4, and so on.
	Files []*os.File
	// Grace is how long the child may take to exit after SIGTERM before it gets SIGKILL.
	Grace time.Duration
	// Probe returns nil once the child is ready. It is called repeatedly, with pauses, until then. If it is nil, a
	// started child counts as ready.
	Probe func(context.Context) error
	// StartTimeout limits the time from the start to the first success of Probe.
	StartTimeout time.Duration
	// Started, if not nil, is called with the process id of each child started.
	Started func(pid int)
}

// ExitError reports that a child exited unexpectedly.
type ExitError struct {
	// Name is the name of the process.
	Name string
	// Ready reports whether the child had been ready before it exited.
	Ready bool
	// Err is how the child exited: an [exec.ExitError], or nil for status 0.
	Err error
	// Log is the path of the log. It may be empty.
	Log string
	// Tail contains the last lines of the log.
	Tail []string
}

// Error names the child, how it exited and the last lines of its log.
func (e *ExitError) Error() string {
	var b strings.Builder
	b.WriteString(e.Name + " stopped by itself")
	if !e.Ready {
		b.WriteString(" during its start")
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	} else {
		b.WriteString(" with status 0")
	}
	if len(e.Tail) > 0 {
		b.WriteString("; its last lines")
		if e.Log != "" {
			b.WriteString(" (all in " + e.Log + ")")
		}
		b.WriteString(":\n\t" + strings.Join(e.Tail, "\n\t"))
	}
	return b.String()
}

// Unwrap returns Err.
func (e *ExitError) Unwrap() error { return e.Err }

// Run starts the child, calls the function ready (which may be nil) once Probe succeeds, and blocks until the child has
// exited.
//
// It returns nil if the child exited because ctx is done, and an [*ExitError] if the child exited by itself. If the
// child could not be started, or was not ready in time, Run stops it and returns another error. When Run returns, the
// child has exited.
func (p Process) Run(ctx context.Context, ready func()) error {
	if ctx.Err() != nil {
		return nil
	}
	// The parent-death signal depends on the thread that forks, not on the process: the thread must live as long as the
	// child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	log, err := openLog(p.Log, p.logLimit())
	if err != nil {
		return fmt.Errorf("opening the log of %s: %w", p.Name, err)
	}
	defer log.Close()
	cmd := p.command(log)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w; check that %s exists and is executable", p.Name, err, p.Path)
	}
	if p.Started != nil {
		p.Started(cmd.Process.Pid)
	}

	child := group{id: cmd.Process.Pid}
	exited := make(chan struct{})
	probed := make(chan struct{})
	watched := make(chan struct{})
	var probeErr error
	var isReady, asked atomic.Bool
	go func() { // probes until ready, timed out, cancelled or dead
		defer close(probed)
		probeErr = p.probe(ctx, exited)
		if probeErr == nil && ctx.Err() == nil {
			select {
			case <-exited:
				return
			default:
			}
			isReady.Store(true)
			if ready != nil {
				ready()
			}
		}
	}()
	go func() { // stops the child if ctx is done or it is not ready in time
		defer close(watched)
		late := probed
		for {
			select {
			case <-exited:
				return
			case <-ctx.Done():
			case <-late:
				if probeErr == nil {
					late = nil
					continue
				}
			}
			break
		}
		asked.Store(true)
		p.end(&child, exited)
	}()

	waitErr := child.wait(cmd)
	close(exited)
	<-probed
	<-watched

	switch {
	case asked.Load() && ctx.Err() != nil:
		return nil
	case asked.Load():
		return fmt.Errorf("waiting for %s to be ready: %w%s", p.Name, probeErr, log.hint())
	case errors.Is(waitErr, exec.ErrWaitDelay):
		waitErr = nil // a grandchild kept the log open; the child itself exited normally
	}
	return &ExitError{Name: p.Name, Ready: isReady.Load(), Err: waitErr, Log: p.Log, Tail: log.tail()}
}

// command returns the command for p, with its output going to log.
func (p Process) command(log io.Writer) *exec.Cmd {
	cmd := exec.Command(p.Path)
	if len(p.Args) > 0 {
		cmd.Args = p.Args
	}
	cmd.Env, cmd.Dir, cmd.ExtraFiles = p.Env, p.Dir, p.Files
	cmd.Stdout, cmd.Stderr = log, log
	// Do not wait for a grandchild that keeps the log open.
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL,
		// The child gets its own group, so that Ctrl-C on a terminal does not reach it and the whole group can be stopped.
		Setpgid: true,
	}
	return cmd
}

// probe calls p.Probe until it succeeds. It returns nil on success, and also if ctx is done or the child exits first.
func (p Process) probe(ctx context.Context, exited <-chan struct{}) error {
	if p.Probe == nil {
		return nil
	}
	limit := p.StartTimeout
	if limit <= 0 {
		limit = DefaultStartTimeout
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	go func() {
		select {
		case <-exited:
			cancel()
		case <-bounded.Done():
		}
	}()
	for pause := 20 * time.Millisecond; ; pause = min(pause*3/2, 200*time.Millisecond) {
		err := p.Probe(bounded)
		if err == nil {
			return nil
		}
		if backoff.Sleep(bounded, pause) != nil {
			if errors.Is(bounded.Err(), context.DeadlineExceeded) && ctx.Err() == nil {
				return fmt.Errorf("not ready within %s: %w", limit, err)
			}
			return nil
		}
	}
}

// end sends SIGTERM to the child's group, and SIGKILL after the grace time.
func (p Process) end(child *group, exited <-chan struct{}) {
	grace := p.Grace
	if grace <= 0 {
		grace = DefaultGrace
	}
	child.signal(syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-exited:
	case <-timer.C:
		child.signal(syscall.SIGKILL)
		<-exited
	}
}

func (p Process) logLimit() int64 {
	if p.LogLimit <= 0 {
		return DefaultLogLimit
	}
	return p.LogLimit
}
