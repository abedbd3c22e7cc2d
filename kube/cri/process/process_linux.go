// Package process starts the processes of containers so that they outlive the server that started them, and finds them
// again.
//
// A container's process leads its own session and carries a token in its environment. A new server finds processes by
// their tokens. It needs no record of them, because a crash could come between the start of a process and the writing
// of its record. Signals and waits use a pidfd, so they never affect another process that got the same number.
package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// TokenVariable is the environment variable that carries the token.
const TokenVariable = "CAPSTAN_CONTAINER"

// ErrGone reports that a process has ended.
var ErrGone = errors.New("process has ended")

// Spec describes the process to start.
type Spec struct {
	// Token identifies the process in TokenVariable; it must be unique on the machine.
	Token string
	// Path is the binary. Args is the whole command line, including the name.
	Path string
	Args []string
	// Env is the environment, without TokenVariable.
	Env []string
	// Dir is the working directory; "" means "/".
	Dir string
	// Stdout and Stderr are inherited; the caller keeps them open.
	Stdout, Stderr *os.File
	// Files are further files, from descriptor 3 on; the caller keeps them open.
	Files []*os.File
}

// Exit says how a process ended.
type Exit struct {
	// Code is the exit code, 128 + N if signal N killed the process, or CodeUnknown.
	Code int32
	// At is the time at which the end was noticed.
	At time.Time
}

// CodeUnknown is the exit code of an adopted process if the kernel does not report it.
const CodeUnknown = 255

// Process is a running or ended process. It is safe for concurrent use.
type Process struct {
	pid  int
	done chan struct{}
	exit Exit // set before done is closed

	mu     sync.Mutex // guards pidfd against use after close
	pidfd  int        // -1 when closed
	wakeup int        // eventfd that stops the watching of an adopted process; -1 for a child
}

// Start starts a process. The caller must receive from Done, and finally call Close.
func Start(spec Spec) (*Process, error) {
	cmd := &exec.Cmd{
		Path:        spec.Path,
		Args:        spec.Args,
		Env:         append(append([]string{}, spec.Env...), TokenVariable+"="+spec.Token),
		Dir:         spec.Dir,
		Stdout:      spec.Stdout,
		Stderr:      spec.Stderr,
		ExtraFiles:  spec.Files,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", spec.Path, err)
	}
	p := &Process{pid: cmd.Process.Pid, done: make(chan struct{}), wakeup: -1}
	// The number stays ours until the process is waited for, below.
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		cmd.Process.Kill()
		cmd.Wait()
		return nil, fmt.Errorf("opening a pidfd of %s (Linux 5.3 or later is needed): %w", spec.Path, err)
	}
	p.pidfd = fd
	go func() {
		cmd.Wait() // the error of Wait adds nothing to the process state
		p.exit = Exit{Code: code(cmd.ProcessState.Sys().(syscall.WaitStatus)), At: time.Now()}
		close(p.done)
	}()
	return p, nil
}

// Adopt takes over the process with the token and number that Find returned. It returns ErrGone if the process has
// ended since.
func Adopt(token string, pid int) (*Process, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil, ErrGone
	}
	if err != nil {
		return nil, fmt.Errorf("opening a pidfd of process %d: %w", pid, err)
	}
	// From now on the pidfd refers to one process. Check that it is the one that was found.
	found, err := Find()
	if err != nil || found[token] != pid {
		unix.Close(fd)
		return nil, errors.Join(ErrGone, err)
	}
	wakeup, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("making an eventfd: %w", err)
	}
	p := &Process{pid: pid, pidfd: fd, wakeup: wakeup, done: make(chan struct{})}
	go p.watch()
	return p, nil
}

// PID returns the process id.
func (p *Process) PID() int { return p.pid }

// Done returns a channel that is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit returns how the process ended. It is valid once Done is closed.
func (p *Process) Exit() Exit { return p.exit }

// Signal sends a signal. It returns ErrGone if the process has ended.
func (p *Process) Signal(s unix.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pidfd < 0 {
		return ErrGone
	}
	err := unix.PidfdSendSignal(p.pidfd, s, nil, 0)
	if errors.Is(err, unix.ESRCH) {
		return ErrGone
	}
	if err != nil {
		return fmt.Errorf("sending %s to process %d: %w", unix.SignalName(s), p.pid, err)
	}
	return nil
}

// Stop sends the process the signal, kills it if it has not ended after grace, and waits for its end.
func (p *Process) Stop(s unix.Signal, grace time.Duration) error {
	if grace > 0 {
		if err := p.Signal(s); err != nil && !errors.Is(err, ErrGone) {
			return err
		}
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-p.done:
			return nil
		case <-timer.C:
		}
	}
	if err := p.Signal(unix.SIGKILL); err != nil && !errors.Is(err, ErrGone) {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(killWait):
		return fmt.Errorf("process %d did not exit within %s of SIGKILL: it hangs in the kernel", p.pid, killWait)
	}
}

// killWait bounds the wait for a killed process to end.
const killWait = 30 * time.Second

// Close releases the process without stopping it. A running child is still waited for; an adopted process is not.
func (p *Process) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pidfd < 0 {
		return
	}
	if p.wakeup >= 0 {
		one := [8]byte{1}
		unix.Write(p.wakeup, one[:])
		return // watch closes both
	}
	unix.Close(p.pidfd)
	p.pidfd = -1
}

// watch waits until an adopted process ends or Close is called.
func (p *Process) watch() {
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		unix.Close(p.pidfd)
		unix.Close(p.wakeup)
		p.pidfd, p.wakeup = -1, -1
	}()
	for {
		fds := []unix.PollFd{{Fd: int32(p.pidfd), Events: unix.POLLIN}, {Fd: int32(p.wakeup), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		if fds[1].Revents != 0 {
			return
		}
		if fds[0].Revents != 0 {
			p.exit = Exit{Code: exitCode(p.pid, p.pidfd), At: time.Now()}
			close(p.done)
			return
		}
	}
}

// code converts a wait status to an exit code.
func code(ws syscall.WaitStatus) int32 {
	if ws.Signaled() {
		return 128 + int32(ws.Signal())
	}
	return int32(ws.ExitStatus())
}
