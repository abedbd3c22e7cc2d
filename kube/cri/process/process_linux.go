// Package process starts the processes of containers so that they outlive the server that started them, and finds them
// again.
//
// A container's process has a session of its own and carries a token in its environment. A server that starts anew
// scans for tokens, so it needs no record that could be lost between the start of a process and its writing. Signals
// and waiting go through a pidfd: a number that was given to another process meanwhile is never hit.
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

// ErrGone is returned for a process that has ended.
var ErrGone = errors.New("process has ended")

// Spec says what to start.
type Spec struct {
	// Token names the process in TokenVariable; it must be unique on the machine.
	Token string
	// Path is the binary; Args is the whole command line, the name it is called by included.
	Path string
	Args []string
	// Env is the environment, without TokenVariable.
	Env []string
	// Dir is the working directory, "/" when empty.
	Dir string
	// Stdout and Stderr are inherited; they stay open here.
	Stdout, Stderr *os.File
	// Files are further files, from descriptor 3 on; they stay open here.
	Files []*os.File
}

// Exit tells how a process ended.
type Exit struct {
	// Code is the exit code, 128 + N when signal N ended it, and CodeUnknown when nobody can tell.
	Code int32
	// At is when the end was seen.
	At time.Time
}

// CodeUnknown is the exit code of an adopted process whose kernel doesn't tell it.
const CodeUnknown = 255

// Process is a running or ended process. Its methods may be called concurrently.
type Process struct {
	pid  int
	done chan struct{}
	exit Exit // set before done is closed

	mu     sync.Mutex // guards pidfd against use after close
	pidfd  int        // -1 when closed
	wakeup int        // eventfd that ends the watching of an adopted process, -1 for a child
}

// Start starts a process. The caller must read Done, and call Close at the end.
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
	// The number is ours until the process is waited for, below.
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		cmd.Process.Kill()
		cmd.Wait()
		return nil, fmt.Errorf("opening a pidfd of %s (Linux 5.3 or later is needed): %w", spec.Path, err)
	}
	p.pidfd = fd
	go func() {
		cmd.Wait() // its error says no more than the state
		p.exit = Exit{Code: code(cmd.ProcessState.Sys().(syscall.WaitStatus)), At: time.Now()}
		close(p.done)
	}()
	return p, nil
}

// Adopt takes over the process with the token and number that Find returned. ErrGone if it has ended since.
func Adopt(token string, pid int) (*Process, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil, ErrGone
	}
	if err != nil {
		return nil, fmt.Errorf("opening a pidfd of process %d: %w", pid, err)
	}
	// The pidfd now stands for one process for good: is it still the one that was found?
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

// PID returns the process's number.
func (p *Process) PID() int { return p.pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit returns how the process ended; it is valid after Done.
func (p *Process) Exit() Exit { return p.exit }

// Signal sends a signal; ErrGone if the process has ended.
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

// Stop asks the process to end by the signal, and kills it when it has not ended after grace. It returns when the
// process has ended.
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
		return fmt.Errorf("process %d did not end within %s of SIGKILL: it hangs in the kernel", p.pid, killWait)
	}
}

// killWait bounds the wait for a killed process to end.
const killWait = 30 * time.Second

// Close lets go of the process without ending it. The wait for a child that runs goes on until it ends, that for an
// adopted process ends.
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

// watch waits for the end of an adopted process, or for Close.
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

// code translates a wait status.
func code(ws syscall.WaitStatus) int32 {
	if ws.Signaled() {
		return 128 + int32(ws.Signal())
	}
	return int32(ws.ExitStatus())
}
