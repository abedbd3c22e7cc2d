//go:build linux

package inside

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/dock/reap"
	"github.com/capstan-dev/capstan/dock/state"
	"github.com/capstan-dev/capstan/dock/supervise"
	"github.com/capstan-dev/capstan/internal/backoff"
	"github.com/capstan-dev/capstan/internal/logfile"
)

// defaultGrace is how long a unit may take to stop after SIGTERM.
const defaultGrace = 20 * time.Second

// unit keeps one process running.
type unit struct {
	name   string
	want   state.Unit
	cancel context.CancelFunc
	ended  chan struct{}

	mu       sync.Mutex
	pid      int
	since    time.Time
	restarts int
	lastExit string
}

func (e *engine) startUnit(name string, want state.Unit) *unit {
	ctx, cancel := context.WithCancel(context.Background())
	u := &unit{name: name, want: want, cancel: cancel, ended: make(chan struct{}), since: time.Now()}
	started := make(chan struct{})
	go func() {
		defer close(u.ended)
		e.keep(ctx, u, sync.OnceFunc(func() { close(started) }))
	}()
	<-started
	return u
}

// keep runs the unit until ctx ends. It calls attempted when the first attempt has started or failed, and may call it
// again later.
func (e *engine) keep(ctx context.Context, u *unit, attempted func()) {
	defer attempted()
	path := u.want.LogFile
	if path == "" {
		path = dock.UnitLog(e.Home, u.name)
	}
	pauses := backoff.Backoff{First: 200 * time.Millisecond, Max: 10 * time.Second, Free: 2}
	for {
		began := time.Now()
		exit := e.runUnit(ctx, u, path, attempted)
		if ctx.Err() != nil {
			return
		}
		delay := pauses.After(time.Since(began))
		e.Log.Printf("unit %s %s; it restarts in %v; its log is %s", u.name, exit, delay, path)
		u.set(0, exit)
		attempted()
		if backoff.Sleep(ctx, delay) != nil {
			return
		}
		u.mu.Lock()
		u.restarts++
		u.mu.Unlock()
	}
}

func (e *engine) runUnit(ctx context.Context, u *unit, path string, attempted func()) (exit string) {
	log, err := logfile.Open(path, 0)
	if err != nil {
		return "could not be started: " + err.Error()
	}
	defer log.Close()
	output, copied, err := logfile.Pipe(log)
	if err != nil {
		return "could not be started: " + err.Error()
	}
	p, err := supervise.Start(e.reaper, supervise.Command{
		Argv: u.want.Argv, Env: append(baseEnv(), u.want.Env...), Dir: u.want.Dir, Output: output,
	})
	output.Close()
	if err != nil {
		return "could not be started: " + err.Error()
	}
	u.set(p.Pid, "")
	attempted()
	select {
	case <-p.Done():
	case <-ctx.Done():
		grace := u.want.Grace
		if grace <= 0 {
			grace = defaultGrace
		}
		if err := p.Stop(grace, supervise.MixedGroup); err != nil {
			e.Log.Printf("stopping unit %s: %v", u.name, err)
		}
	}
	exit = reap.Describe(p.Status())
	if err := p.KillRest(); err != nil { // never run two instances side by side
		e.Log.Printf("unit %s: %v", u.name, err)
	}
	select {
	case <-copied:
	case <-time.After(time.Second): // a process that KillRest did not find still holds the pipe
	}
	return exit
}

func (u *unit) set(pid int, exit string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.pid, u.since = pid, time.Now()
	if exit != "" {
		u.lastExit = exit
	}
}

func (u *unit) close() {
	u.cancel()
	<-u.ended
}

// baseEnv returns an environment that does not depend on who started the dock, except for a few variables that identify
// the user.
func baseEnv() []string {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	for _, name := range []string{"HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// ensureUnit serves dock.Client.EnsureUnit.
func (e *engine) ensureUnit(u dock.Unit) (dock.UnitStatus, error) {
	if err := checkName("unit", u.Name); err != nil {
		return dock.UnitStatus{}, err
	}
	if len(u.Argv) == 0 || !filepath.IsAbs(u.Argv[0]) {
		return dock.UnitStatus{}, invalid("unit %s: its first word must be the absolute path of a program", u.Name)
	}
	if u.LogFile != "" && !filepath.IsAbs(u.LogFile) {
		return dock.UnitStatus{}, invalid("unit %s: the path of its log file must be absolute", u.Name)
	}
	for _, v := range u.Env {
		if !strings.Contains(v, "=") {
			return dock.UnitStatus{}, invalid("unit %s: %q is not NAME=VALUE", u.Name, v)
		}
	}
	want := state.Unit{Argv: u.Argv, Env: u.Env, Dir: u.Dir, LogFile: u.LogFile, Grace: u.Grace}
	e.unitCalls.Lock()
	defer e.unitCalls.Unlock()
	e.mu.Lock()
	have := e.units[u.Name]
	if have != nil && have.want.Equal(want) {
		defer e.mu.Unlock()
		return e.describeUnit(have), nil
	}
	err := e.change(func(s *state.State) error { s.Units[u.Name] = want; return nil })
	e.mu.Unlock()
	if err != nil {
		return dock.UnitStatus{}, err
	}
	if have != nil {
		have.close()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing {
		return dock.UnitStatus{}, errClosing
	}
	e.units[u.Name] = e.startUnit(u.Name, want)
	return e.describeUnit(e.units[u.Name]), nil
}

// stopUnit serves dock.Client.StopUnit.
func (e *engine) stopUnit(name string) error {
	if err := checkName("unit", name); err != nil {
		return err
	}
	e.unitCalls.Lock()
	defer e.unitCalls.Unlock()
	e.mu.Lock()
	u := e.units[name]
	if u == nil {
		e.mu.Unlock()
		return nil
	}
	err := e.change(func(s *state.State) error { delete(s.Units, name); return nil })
	e.mu.Unlock()
	if err != nil {
		return err
	}
	u.close()
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.units, name)
	return nil
}

func (e *engine) describeUnit(u *unit) dock.UnitStatus {
	u.mu.Lock()
	defer u.mu.Unlock()
	return dock.UnitStatus{
		Unit: dock.Unit{
			Name: u.name, Argv: u.want.Argv, Env: u.want.Env, Dir: u.want.Dir, LogFile: u.want.LogFile, Grace: u.want.Grace,
		},
		Running: u.pid != 0, PID: e.outerPID(u.pid), Since: u.since, Restarts: u.restarts, LastExit: u.lastExit,
	}
}
