//go:build linux

// Package reap starts and collects the children of a process that is PID 1 of a PID namespace.
//
// Such a process inherits all orphans of its namespace and must wait for them, or they remain as zombies. If such a
// program waited for "any child" and also used os/exec, it would steal the exit status from exec.Cmd.Wait. So a program
// with a Reaper starts all its children through it: Start registers the child before the Reaper can collect it, and the
// Child receives the exit status. All other processes are orphans, which the Reaper only collects.
package reap

import (
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Reaper collects every child of this process. Create at most one in a process, with New.
type Reaper struct {
	mu       sync.Mutex // held from fork to registration, and from wait to lookup
	children map[int]*Child
	orphans  int

	signals chan os.Signal
	quit    chan struct{}
	ended   chan struct{}
}

// Child is a process started by Reaper.Start.
type Child struct {
	// Pid is the process id as this process sees it.
	Pid int

	reaper *Reaper
	done   chan struct{}
	status syscall.WaitStatus // valid once done is closed
}

// New returns a Reaper and starts collecting children until Close.
func New() *Reaper {
	r := &Reaper{
		children: map[int]*Child{},
		signals:  make(chan os.Signal, 1),
		quit:     make(chan struct{}),
		ended:    make(chan struct{}),
	}
	signal.Notify(r.signals, syscall.SIGCHLD)
	go r.run()
	return r
}

// Close stops collecting. Children that still run are then never collected, so stop them first.
func (r *Reaper) Close() {
	signal.Stop(r.signals)
	close(r.quit)
	<-r.ended
}

// Orphans returns the number of collected processes that Start did not start.
func (r *Reaper) Orphans() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.orphans
}

// Start runs the program at path with argv (argv[0] included). It returns once the program executes, or with the reason
// why it can't.
func (r *Reaper) Start(path string, argv []string, attr *syscall.ProcAttr) (*Child, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, _, err := syscall.StartProcess(path, argv, attr)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", path, err)
	}
	c := &Child{Pid: pid, reaper: r, done: make(chan struct{})}
	r.children[pid] = c
	return c, nil
}

// Done returns a channel that is closed when the child has ended and was collected.
func (c *Child) Done() <-chan struct{} { return c.done }

// Status waits for the child to end and returns its wait status.
func (c *Child) Status() syscall.WaitStatus {
	<-c.done
	return c.status
}

// Signal sends sig to the child alone. If the child has ended, Signal does nothing and returns nil; it never signals a
// reused process id.
func (c *Child) Signal(sig syscall.Signal) error { return c.kill(c.Pid, sig) }

// SignalGroup sends sig to the child's process group, which the child must lead (ProcAttr.Sys.Setsid or Setpgid).
func (c *Child) SignalGroup(sig syscall.Signal) error { return c.kill(-c.Pid, sig) }

func (c *Child) kill(pid int, sig syscall.Signal) error {
	// While we hold the lock, the child can't be collected, so no other process can have its id.
	c.reaper.mu.Lock()
	defer c.reaper.mu.Unlock()
	if _, alive := c.reaper.children[c.Pid]; !alive {
		return nil
	}
	if err := syscall.Kill(pid, sig); err != nil && err != syscall.ESRCH {
		return fmt.Errorf("sending %v to process %d: %w", sig, pid, err)
	}
	return nil
}

func (r *Reaper) run() {
	defer close(r.ended)
	for {
		r.collect()
		select {
		case <-r.signals:
		case <-r.quit:
			return
		}
	}
}

// collect collects all children that have ended; one SIGCHLD may announce several.
func (r *Reaper) collect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		c, ours := r.children[pid]
		if !ours {
			r.orphans++
			continue
		}
		delete(r.children, pid)
		c.status = status
		close(c.done)
	}
}

// Describe says how a process ended: "exited with status 1", "was killed by signal: terminated".
func Describe(s syscall.WaitStatus) string {
	switch {
	case s.Exited() && s.ExitStatus() == 0:
		return "ended"
	case s.Exited():
		return fmt.Sprintf("exited with status %d", s.ExitStatus())
	case s.Signaled():
		return fmt.Sprintf("was killed by signal: %v", s.Signal())
	}
	return fmt.Sprintf("ended with wait status %#x", int(s))
}
