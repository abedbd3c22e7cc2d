// Package process runs child processes so that none is ever left behind.
//
// A [Process] is a value that says what to run. [Process.Run] starts it, blocks until it has ended and always collects
// its exit; ending the context ends the child, first politely, then by force. [Process.Keep] does the same for ever: a
// child that dies is started again with growing pauses. A child dies with its parent, even when the parent is killed,
// and its log is bounded.
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

// Defaults of the fields of [Process] that are left zero.
const (
	DefaultGrace        = 10 * time.Second
	DefaultStartTimeout = 60 * time.Second
	DefaultLogLimit     = 8 << 20
)

// tailLines is how many lines of the log an [ExitError] shows.
const tailLines = 12

// Process says how to run one child.
type Process struct {
	// Name is what messages call the child. Required.
	Name string
	// Path is the executable. Required.
	Path string
	// Args are the arguments, the name the child is called by (argv[0]) first. Empty means Path alone.
	Args []string
	// Env is the whole environment of the child. Nil means that of this process.
	Env []string
	// Dir is the working directory. Empty means that of this process.
	Dir string
	// Log is the file that gets what the child writes to stdout and stderr; it is appended to. Empty drops the output,
	// except for the last lines that are shown when the child dies.
	Log string
	// LogLimit is the size in bytes at which Log is moved to Log+".1", replacing an older one.
	LogLimit int64
	// Files are inherited by the child as descriptors 3, 4, and so on.
	Files []*os.File
	// Grace is how long the child may take from SIGTERM to its end before it gets SIGKILL.
	Grace time.Duration
	// Probe reports nil once the child does its work. It is called again and again, with pauses, until it does. Nil means
	// that a started child is ready.
	Probe func(context.Context) error
	// StartTimeout bounds the time from start to the first success of Probe.
	StartTimeout time.Duration
	// Started, if set, is told the process id of each child that was started.
	Started func(pid int)
}

// ExitError reports that a child ended although nobody had asked it to.
type ExitError struct {
	// Name is the name of the process.
	Name string
	// Ready is whether the child had been ready before it ended.
	Ready bool
	// Err is how it ended: an [exec.ExitError] or nil for status 0.
	Err error
	// Log is the path of the log; may be empty.
	Log string
	// Tail are the last lines of the log.
	Tail []string
}

// Error names the child, how it ended, and the last lines of its log.
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

// Unwrap returns how the child ended.
func (e *ExitError) Unwrap() error { return e.Err }

// Run starts the child, calls ready (may be nil) once Probe succeeds, and blocks until the child has ended.
//
// It returns nil if ctx ended and the child with it, an [*ExitError] if the child ended by itself, and another error if
// it could not be started or was not ready in time; in that case it has been ended too. When Run returns there is no
// child any more.
func (p Process) Run(ctx context.Context, ready func()) error {
	if ctx.Err() != nil {
		return nil
	}
	// The parent-death signal is bound to the thread that forks, not to the process: the thread must live as long as the
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
	go func() { // probes until ready, too late, asked to stop or dead
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
	go func() { // ends the child when asked to, or when it does not get ready
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
		waitErr = nil // a grandchild kept the log open; the child itself ended well
	}
	return &ExitError{Name: p.Name, Ready: isReady.Load(), Err: waitErr, Log: p.Log, Tail: log.tail()}
}

// command builds the command of p, writing to log.
func (p Process) command(log io.Writer) *exec.Cmd {
	cmd := exec.Command(p.Path)
	if len(p.Args) > 0 {
		cmd.Args = p.Args
	}
	cmd.Env, cmd.Dir, cmd.ExtraFiles = p.Env, p.Dir, p.Files
	cmd.Stdout, cmd.Stderr = log, log
	// A grandchild that keeps the log open must not keep us waiting.
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL,
		// A group of its own: Ctrl-C on a terminal reaches us alone, and the whole group can be ended.
		Setpgid: true,
	}
	return cmd
}

// probe calls p.Probe until it succeeds. It returns nil on success and when ctx or the child ended first.
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

// end asks the group of the child to end, and makes it end after the grace time.
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
