//go:build linux

package inside

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/dock/initd"
	"github.com/capstan-dev/capstan/dock/reap"
	"github.com/capstan-dev/capstan/dock/rootfs"
	"github.com/capstan-dev/capstan/dock/state"
	"github.com/capstan-dev/capstan/internal/backoff"
)

// goal is the wanted state of a host.
type goal int

const (
	wantStopped goal = iota
	wantRunning
	wantReboot  // reboot once; then the goal is wantRunning
	wantDeleted // for good
	wantClosed  // the dock is stopping
)

// host is a local host with its goal. A goroutine runs the method drive: a loop that moves the host towards the goal.
// After setting a goal, a caller can wait until the loop has tried.
type host struct {
	name    string
	address string
	want    state.Host

	mu       sync.Mutex
	goal     goal
	files    []rootfs.File // to be written by the loop: before the next start, or at once if the host runs
	asked    int           // counts calls of ask
	tried    int           // the last call that the loop has handled
	err      error         // the outcome of that call
	changed  chan struct{} // closed and replaced when a call is handled or a field below changes
	state    dock.HostState
	since    time.Time
	pid      int
	restarts int
	lastErr  string
	ids      int    // as of the last start
	limits   string // as of the last start

	images net.Listener // for requests about images; belongs to the loop

	wake  chan struct{} // has room for one value
	ended chan struct{} // closed when the loop has ended
}

// startHost starts the loop of a host from the state file.
func (e *engine) startHost(name string, want state.Host, files []rootfs.File) *host {
	h := &host{
		name: name, address: want.Address.String(), want: want, files: files, state: dock.HostStopped, since: time.Now(),
		changed: make(chan struct{}), wake: make(chan struct{}, 1), ended: make(chan struct{}), asked: 1,
	}
	switch {
	case want.Deleting:
		h.goal = wantDeleted
	case want.Run:
		h.goal = wantRunning
	}
	go e.drive(h)
	return h
}

// ask sets the goal and returns a number to await.
func (h *host) ask(g goal) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.goal != wantDeleted && h.goal != wantClosed || g == wantClosed {
		h.goal = g
	}
	h.asked++
	select {
	case h.wake <- struct{}{}:
	default:
	}
	return h.asked
}

// await waits until the loop has handled call number n of ask, and returns the outcome.
func (h *host) await(ctx context.Context, n int) error {
	for {
		h.mu.Lock()
		changed, done, err := h.changed, h.tried >= n, h.err
		h.mu.Unlock()
		if done {
			return err
		}
		select {
		case <-changed:
		case <-h.ended:
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.err
		case <-ctx.Done():
			return fmt.Errorf("waiting for host %s: %w", h.name, ctx.Err())
		}
	}
}

func (h *host) notify() {
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *host) set(s dock.HostState, pid int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != s {
		h.since = time.Now()
	}
	h.state, h.pid = s, pid
	h.notify()
}

// dealt records that all calls up to number n were handled.
func (h *host) dealt(n int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tried, h.err = n, err
	if err != nil {
		h.lastErr = err.Error()
	}
	h.notify()
}

func (h *host) next() (goal, int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.goal
	if g == wantReboot {
		h.goal = wantRunning
	}
	return g, h.asked
}

// takeFiles returns the files to write. A caller that can't write them passes them to returnFiles.
func (h *host) takeFiles() []rootfs.File {
	h.mu.Lock()
	defer h.mu.Unlock()
	files := h.files
	h.files = nil
	return files
}

// returnFiles keeps files for the next try, except those that were replaced by newer ones.
func (h *host) returnFiles(files []rootfs.File) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.files == nil {
		h.files = files
	}
}

func (h *host) close() {
	h.ask(wantClosed)
	<-h.ended
}

// Delays between starts of a host that can't start or stops by itself.
const (
	firstHostDelay = 500 * time.Millisecond
	lastHostDelay  = 30 * time.Second
)

// drive runs the loop of a host.
func (e *engine) drive(h *host) {
	defer close(h.ended)
	defer h.closeImages()
	pauses := backoff.Backoff{First: firstHostDelay, Max: lastHostDelay}
	var run *reap.Child // nil unless it runs
	var began time.Time
	for {
		g, n := h.next()
		var retry <-chan time.Time
		switch g {
		case wantDeleted:
			if e.delete(h, run, n, &pauses) {
				return
			}
			run = nil
			retry = time.After(pauses.Next())
		case wantStopped, wantClosed, wantReboot:
			if run != nil {
				e.powerOff(h, run)
				run = nil
			}
			h.set(dock.HostStopped, 0)
			if g == wantClosed {
				h.dealt(n, errClosing)
				return
			}
			if g == wantReboot {
				continue
			}
			h.dealt(n, nil)
		case wantRunning:
			if run == nil {
				var err error
				began = time.Now()
				if run, err = e.boot(h); err != nil {
					delay := pauses.After(time.Since(began))
					e.Log.Printf("host %s does not start: %v; next try in %v", h.name, err, delay)
					h.set(dock.HostFailed, 0)
					h.dealt(n, classify(err))
					retry = time.After(delay)
					break
				}
				h.set(dock.HostRunning, run.Pid)
			}
			h.dealt(n, classify(e.deliver(h)))
		}
		var gone <-chan struct{}
		if run != nil {
			gone = run.Done()
		}
		select {
		case <-h.wake:
		case <-retry:
		case <-gone:
			if delay := e.hostEnded(h, run.Status(), time.Since(began), &pauses); delay > 0 {
				e.waitOrWake(h, delay)
			}
			run = nil
		}
	}
}

// hostEnded handles an unrequested exit of a host's PID 1 and returns how long to wait before the next start.
func (e *engine) hostEnded(h *host, status syscall.WaitStatus, ran time.Duration,
	pauses *backoff.Backoff) time.Duration {
	e.unlink(h)
	switch {
	case status.Exited() && status.ExitStatus() == 0:
		// Somebody ran "poweroff" in the host. The host stays off, even when the dock restarts.
		e.Log.Printf("host %s was powered off from within", h.name)
		h.set(dock.HostStopped, 0)
		if err := e.record(h, false); err != nil {
			e.Log.Printf("recording that host %s is off: %v", h.name, err)
		}
		h.mu.Lock()
		if h.goal == wantRunning {
			h.goal = wantStopped
		}
		h.mu.Unlock()
		return 0
	case status.Exited() && status.ExitStatus() == initd.RebootCode:
		e.Log.Printf("host %s reboots", h.name)
		h.set(dock.HostStopped, 0)
		return 0
	}
	delay := pauses.After(ran)
	message := fmt.Sprintf("its PID 1 %s", reap.Describe(status))
	e.Log.Printf("host %s: %s; it restarts in %v", h.name, message, delay)
	h.mu.Lock()
	h.restarts++
	h.lastErr = message
	h.mu.Unlock()
	h.set(dock.HostFailed, 0)
	return delay
}

func (e *engine) waitOrWake(h *host, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-h.wake:
	}
}

// record saves whether a host should run.
func (e *engine) record(h *host, run bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing {
		return nil // already recorded
	}
	return e.recordLocked(h.name, run)
}

func (e *engine) recordLocked(name string, run bool) error {
	have, exists := e.want.Hosts[name]
	if !exists {
		return notFound("host", name)
	}
	if have.Run == run {
		return nil
	}
	have.Run = run
	return e.change(func(s *state.State) error { s.Hosts[name] = have; return nil })
}

// delete stops the host, removes everything that belongs to it, and reports whether that is done.
func (e *engine) delete(h *host, run *reap.Child, n int, pauses *backoff.Backoff) bool {
	h.set(dock.HostDeleting, 0)
	if run != nil {
		// Its data is deleted anyway, so a clean stop is pointless. PID 1 counts as ended only after all others in its
		// namespace have ended.
		if err := run.Signal(syscall.SIGKILL); err != nil {
			e.Log.Printf("host %s: %v", h.name, err)
		}
		<-run.Done()
	}
	err := errors.Join(e.unlink(h), rootfs.Remove(dock.HostDir(e.Home, h.name)))
	if err == nil {
		err = e.forget(h)
	}
	if err != nil {
		e.Log.Printf("deleting host %s: %v", h.name, err)
	}
	h.dealt(n, classify(err))
	return err == nil
}

func (e *engine) forget(h *host) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.change(func(s *state.State) error { delete(s.Hosts, h.name); return nil }); err != nil {
		return err
	}
	delete(e.hosts, h.name)
	return nil
}
