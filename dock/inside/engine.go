//go:build linux

package inside

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"time"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/dock/cgroup"
	"github.com/capstan-dev/capstan/dock/handoff"
	"github.com/capstan-dev/capstan/dock/network"
	"github.com/capstan-dev/capstan/dock/reap"
	"github.com/capstan-dev/capstan/dock/state"
)

// engine holds everything in the dock. The state file holds the wanted state; the maps here hold the actual state.
type engine struct {
	Config
	engineParts
	dir     string // HOME/dock
	started time.Time
	boots   chan struct{} // bounds the hosts that boot at the same time

	shutdownAsked chan struct{}
	askOnce       sync.Once

	unitCalls sync.Mutex // serializes calls about units

	mu        sync.Mutex // guards what follows; never held while waiting for a process
	want      *state.State
	closing   bool
	hosts     map[string]*host
	units     map[string]*unit
	relays    map[string]*forward // includes the relays of balancers
	balancers map[string]*forward
}

type engineParts struct {
	reaper      *reap.Reaper
	kernel      network.Kernel
	listeners   listeners
	machineProc *os.File
	groups      *cgroup.Dock // nil if hosts can't have limits
}

// listeners opens listeners on the machine; see package handoff.
type listeners interface {
	Listen(port int) (net.Listener, error)
	ListenAt(address netip.AddrPort) (net.Listener, error)
	Gone() <-chan struct{}
}

// maxBoots is the number of hosts that boot at the same time; more would only compete for processor time.
const maxBoots = 4

// newEngine restores what the state file lists.
func newEngine(c Config, p engineParts) (*engine, error) {
	e := &engine{
		Config: c, engineParts: p,
		dir: dock.Dir(c.Home), started: time.Now(), boots: make(chan struct{}, maxBoots), shutdownAsked: make(chan struct{}),
		hosts: map[string]*host{}, units: map[string]*unit{}, relays: map[string]*forward{}, balancers: map[string]*forward{},
	}
	var err error
	if e.want, err = state.Load(e.statePath()); err != nil {
		return nil, err
	}
	for name, b := range e.want.Balancers {
		e.balancers[name] = e.startBalancer(name, b)
	}
	for name, r := range e.want.Relays {
		e.relays[name] = e.startRelay(name, r)
	}
	for name, u := range e.want.Units {
		e.units[name] = e.startUnit(name, u)
	}
	for name, h := range e.want.Hosts {
		// If the dock died before this host had its files, the host would start without them. So such a host stays
		// off until EnsureHost is called again and brings the files.
		h.Run = h.Run && made(e.Home, name)
		e.hosts[name] = e.startHost(name, h, nil)
	}
	return e, nil
}

func (e *engine) statePath() string { return filepath.Join(e.dir, "state.json") }

// change calls f to change a copy of the wanted state, saves the copy and makes it the wanted state. If it returns an
// error, nothing has changed. The caller holds e.mu.
func (e *engine) change(f func(*state.State) error) error {
	if e.closing {
		return errClosing
	}
	next := e.want.Clone()
	if err := f(next); err != nil {
		return err
	}
	if err := next.Save(e.statePath()); err != nil {
		return classify(err)
	}
	e.want = next
	return nil
}

var errClosing = &dock.Error{
	Code: dock.CodeShuttingDown, Message: "the dock is shutting down: start it again with `capstan up`",
}

// shutdown stops everything cleanly and at the same time; each part has its own time limits.
func (e *engine) shutdown() {
	e.mu.Lock()
	e.closing = true
	var wait []func()
	for _, u := range e.units {
		wait = append(wait, u.close)
	}
	for _, h := range e.hosts {
		wait = append(wait, h.close)
	}
	for _, r := range e.relays {
		wait = append(wait, r.close)
	}
	for _, b := range e.balancers {
		wait = append(wait, b.close)
	}
	e.mu.Unlock()
	var all sync.WaitGroup
	for _, f := range wait {
		all.Go(f)
	}
	all.Wait()
}

func (e *engine) askShutdown() { e.askOnce.Do(func() { close(e.shutdownAsked) }) }

var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// checkName rejects a name that is not a DNS label. Names become parts of paths, and other names could lead out of a
// directory.
func checkName(kind, name string) error {
	if !label.MatchString(name) {
		return invalid("%q is not a name for a %s: it must consist of at most 63 lower case letters, digits and dashes, and "+
			"not begin or end with a dash", name, kind)
	}
	return nil
}

func invalid(format string, args ...any) error {
	return &dock.Error{Code: dock.CodeInvalid, Message: fmt.Sprintf(format, args...)}
}

func notFound(kind, name string) error {
	return &dock.Error{Code: dock.CodeNotFound, Message: fmt.Sprintf("there is no %s called %s", kind, name)}
}

// classify adds a code to every error that the dock returns to a client.
func classify(err error) error {
	var typed *dock.Error
	var taken *handoff.TakenError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &typed):
		return err
	case errors.As(err, &taken):
		return &dock.Error{Code: dock.CodePortTaken, Message: err.Error()}
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return &dock.Error{Code: dock.CodeNoSpace, Message: err.Error() + ": free some space on that disk and try again"}
	case errors.Is(err, network.ErrExhausted):
		return &dock.Error{Code: dock.CodeExhausted, Message: err.Error()}
	case errors.Is(err, fs.ErrInvalid):
		return &dock.Error{Code: dock.CodeInvalid, Message: err.Error()}
	}
	return &dock.Error{Code: dock.CodeFailed, Message: err.Error()}
}
