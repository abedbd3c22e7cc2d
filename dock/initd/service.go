//go:build linux

package initd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/capstan-dev/capstan/dock/reap"
	"github.com/capstan-dev/capstan/dock/supervise"
	"github.com/capstan-dev/capstan/dock/unit"
	"github.com/capstan-dev/capstan/internal/logfile"
)

// State is systemd's ActiveState of a service.
type State string

// The states of a service.
const (
	Inactive     State = "inactive"
	Activating   State = "activating" // also while the service waits for its restart
	Active       State = "active"
	Deactivating State = "deactivating"
	Failed       State = "failed"
)

// Delays between restarts: first the unit's RestartPause a few times, then growing, so that a service that can't start
// costs little.
const (
	freeRestarts    = 20
	maxRestartDelay = 10 * time.Second
)

// service is one unit across its starts and stops. Its goroutine runs from start to stop.
type service struct {
	name string
	m    *Manager

	mu       sync.Mutex
	state    State
	sub      string // systemd's SubState
	result   string // "success", or why it failed
	pid      int
	exit     string // how the last main process ended
	code     int    // the exit status of that process, or the signal's number
	restarts int
	since    time.Time
	run      *run // nil unless started
	output   *os.File
	unit     *unit.Unit // as of the last start
}

// run is the time from one start to the next stop.
type run struct {
	cancel context.CancelFunc
	ctx    context.Context
	kick   chan struct{} // receives when a start is requested while waiting to restart
	ended  chan struct{}

	attempt *attempt // the current or the next one; guarded by service.mu
}

// attempt is one execution of a run: the first, or one after a failure.
type attempt struct {
	decided chan struct{} // closed once the service is active or has failed
	err     error         // why it failed; valid once decided is closed
}

func newAttempt() *attempt { return &attempt{decided: make(chan struct{})} }

// decide reports the outcome to those who wait for the attempt. Only the first outcome counts.
func (a *attempt) decide(err error) {
	select {
	case <-a.decided:
	default:
		a.err = err
		close(a.decided)
	}
}

// Start starts the service if it isn't started, and waits until it is active or has failed.
func (s *service) Start(ctx context.Context) error {
	u, err := unit.Load(s.name, s.m.dirs)
	if err != nil {
		return err
	}
	s.mu.Lock()
	for s.run != nil && s.run.ctx.Err() != nil { // it is stopping: start it afterwards
		r := s.run
		s.mu.Unlock()
		select {
		case <-r.ended:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s to stop: %w", s.name, ctx.Err())
		}
		s.mu.Lock()
	}
	r := s.run
	switch {
	case r == nil:
		if s.output == nil {
			if s.output, err = s.m.openLog(s.name); err != nil {
				s.mu.Unlock()
				return err
			}
		}
		if err := s.m.enter(); err != nil {
			s.mu.Unlock()
			return err
		}
		runCtx, cancel := context.WithCancel(s.m.ctx)
		r = &run{ctx: runCtx, cancel: cancel, kick: make(chan struct{}, 1), ended: make(chan struct{}), attempt: newAttempt()}
		s.run, s.unit, s.restarts = r, u, 0
		go s.loop(r, u)
	case s.state == Active:
		s.mu.Unlock()
		return nil
	case s.sub == "auto-restart":
		s.unit = u
		select {
		case r.kick <- struct{}{}:
		default:
		}
	}
	a := r.attempt
	s.mu.Unlock()
	select {
	case <-a.decided:
		return a.err
	case <-ctx.Done():
		return fmt.Errorf("waiting for %s to start: %w", s.name, ctx.Err())
	}
}

// Stop stops the service and waits until it has stopped.
func (s *service) Stop(ctx context.Context) error {
	s.mu.Lock()
	r := s.run
	if r == nil && s.state == Failed {
		s.state, s.sub = Inactive, "dead"
	}
	s.mu.Unlock()
	if r == nil {
		return nil
	}
	r.cancel()
	select {
	case <-r.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for %s to stop: %w", s.name, ctx.Err())
	}
}

func (s *service) set(state State, sub string, pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setLocked(state, sub, pid)
}

func (s *service) setLocked(state State, sub string, pid int) {
	if state != s.state {
		s.since = time.Now()
	}
	s.state, s.sub, s.pid = state, sub, pid
}

// activate marks an attempt as successful.
func (s *service) activate(a *attempt, sub string, pid int) {
	s.set(Active, sub, pid)
	a.decide(nil)
}

// errStopped is the error of a start that somebody stopped.
var errStopped = errors.New("it was stopped before it restarted")

func (s *service) loop(r *run, u *unit.Unit) {
	defer s.m.running.Done()
	pauses := restartPauses(u)
	for {
		began := time.Now()
		a := r.attempt // only this goroutine replaces it
		end := s.once(r, a, u)
		// Callers that wait for the attempt may ask for the state next, so set it first.
		if r.ctx.Err() != nil || !end.restart(u) {
			s.finish(r, end)
			a.decide(end.err)
			return
		}
		delay := pauses.After(time.Since(began))
		over := a
		a = newAttempt()
		s.mu.Lock()
		s.restarts++
		r.attempt = a
		s.setLocked(Activating, "auto-restart", 0)
		s.mu.Unlock()
		over.decide(end.err)
		s.note("%s; it restarts in %v", end, delay)
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-r.kick:
			pauses.Reset()
		case <-r.ctx.Done():
		}
		timer.Stop()
		if r.ctx.Err() != nil {
			s.finish(r, ending{})
			a.decide(errStopped)
			return
		}
		// The unit file may have changed in the meantime.
		if again, err := unit.Load(s.name, s.m.dirs); err == nil {
			u = again
			s.mu.Lock()
			s.unit = u
			s.mu.Unlock()
		}
	}
}

// note writes to the console and to the service's own log, where people look first.
func (s *service) note(format string, args ...any) {
	text := s.name + " " + fmt.Sprintf(format, args...)
	s.m.log.Print(text)
	fmt.Fprintf(s.output, "%s init: %s\n", time.Now().Format(time.RFC3339), text)
}

func (s *service) finish(r *run, end ending) {
	state, sub := Inactive, "dead"
	s.mu.Lock()
	s.result = "success"
	if r.ctx.Err() == nil && end.failed() {
		state, sub, s.result = Failed, "failed", end.result()
	}
	s.run = nil
	s.mu.Unlock()
	s.set(state, sub, 0)
	if state == Failed {
		s.note("%s", end)
	}
	close(r.ended)
}

// once runs the service one time, until it exits or is stopped.
func (s *service) once(r *run, a *attempt, u *unit.Unit) ending {
	s.set(Activating, "start-pre", 0)
	env, err := u.Env(s.m.env)
	if err != nil {
		return ending{err: err}
	}
	for _, c := range u.ExecStartPre {
		if err := s.command(r.ctx, u, c, env, u.TimeoutStart); err != nil {
			return ending{err: fmt.Errorf("ExecStartPre: %w", err)}
		}
	}
	if u.Type == "oneshot" {
		return s.oneshot(r, a, u, env)
	}
	c := u.ExecStart[0]
	p, err := supervise.Start(s.m.reaper, supervise.Command{
		Argv: c.Expand(env), Env: env, Dir: u.WorkingDirectory, Output: s.output,
	})
	if err != nil {
		return ending{err: err}
	}
	s.activate(a, "running", p.Pid)
	select {
	case <-p.Done():
	case <-r.ctx.Done():
		s.stop(u, p, env)
	}
	mode := supervise.Mode(u.KillMode)
	if mode == supervise.NoProcess {
		select {
		case <-p.Done():
		default:
			s.note("is stopped; its process %d keeps running, as KillMode=none says", p.Pid)
			return ending{ran: true}
		}
	}
	status := p.Status()
	s.ended(status)
	if mode != supervise.MainProcess && mode != supervise.NoProcess {
		if err := p.KillRest(); err != nil {
			s.m.log.Printf("%s: %v", s.name, err)
		}
	}
	if c.IgnoreFailure {
		status = 0
	}
	return ending{ran: true, status: status}
}

func (s *service) stop(u *unit.Unit, p *supervise.Process, env []string) {
	s.set(Deactivating, "stop-sigterm", p.Pid)
	ctx := context.Background()
	for _, c := range u.ExecStop {
		env := append(append([]string(nil), env...), "MAINPID="+strconv.Itoa(p.Pid))
		if err := s.command(ctx, u, c, env, u.TimeoutStop); err != nil {
			s.m.log.Printf("%s: ExecStop: %v", s.name, err)
		}
	}
	grace := u.TimeoutStop
	if grace == 0 {
		grace = time.Minute // "infinity" would mean an unbounded wait
	}
	if err := p.Stop(grace, supervise.Mode(u.KillMode)); err != nil {
		s.m.log.Printf("stopping %s: %v", s.name, err)
	}
}

func (s *service) ended(status syscall.WaitStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.exit = reap.Describe(status)
	if s.code = status.ExitStatus(); status.Signaled() {
		s.code = int(status.Signal())
	}
}

func (s *service) oneshot(r *run, a *attempt, u *unit.Unit, env []string) ending {
	s.set(Activating, "start", 0)
	for _, c := range u.ExecStart {
		if err := s.command(r.ctx, u, c, env, u.TimeoutStart); err != nil {
			var exit exitError
			if errors.As(err, &exit) {
				s.ended(exit.status)
				return ending{err: err, ran: true, status: exit.status}
			}
			return ending{err: err}
		}
	}
	if !u.RemainAfterExit {
		return ending{ran: true}
	}
	s.activate(a, "exited", 0)
	<-r.ctx.Done()
	return ending{ran: true}
}

// command runs one command until it exits, the service is stopped, or limit is over (0: no limit).
func (s *service) command(ctx context.Context, u *unit.Unit, c unit.Command, env []string, limit time.Duration) error {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	argv := c.Expand(env)
	p, err := supervise.Start(s.m.reaper, supervise.Command{
		Argv: argv, Env: env, Dir: u.WorkingDirectory, Output: s.output,
	})
	if err != nil {
		return ignore(c, err)
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		if err := p.Stop(time.Second, supervise.WholeGroup); err != nil {
			return err
		}
		if s.m.ctx.Err() == nil {
			return fmt.Errorf("%s was stopped: %w", argv[0], ctx.Err())
		}
	}
	if status := p.Status(); status != 0 {
		return ignore(c, exitError{argv[0], status})
	}
	return nil
}

func ignore(c unit.Command, err error) error {
	if c.IgnoreFailure {
		return nil
	}
	return err
}

// openLog returns the write end of a pipe to the unit's log file. The pipe stays open for later starts: processes that
// survive a stop of the service may still write to it.
func (m *Manager) openLog(name string) (*os.File, error) {
	file, err := logfile.Open(m.LogPath(name), maxLog)
	if err != nil {
		return nil, err
	}
	in, _, err := logfile.Pipe(file)
	if err != nil {
		file.Close()
		return nil, err
	}
	return in, nil
}
