//go:build linux

package initd

import (
	"context"
	"errors"
	"log"
	"path/filepath"
	"sort"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/dock/reap"
	"github.com/capstan-dev/capstan/dock/unit"
)

// maxLog is the size in bytes at which a unit's log is rotated.
const maxLog = 4 << 20

// Manager runs the services of a host.
type Manager struct {
	reaper *reap.Reaper
	log    *log.Logger
	dirs   []string // directories with unit files; the first one gets the links of enabled units
	logDir string
	env    []string // the environment of every service

	ctx    context.Context
	cancel context.CancelFunc

	gate    sync.Mutex // guards the field closed: once closed is true, running doesn't grow; locked last
	closed  bool
	running sync.WaitGroup

	mu       sync.Mutex
	services map[string]*service
}

// Config configures a Manager.
type Config struct {
	Reaper   *reap.Reaper
	Log      *log.Logger
	UnitDirs []string
	LogDir   string
	Env      []string
}

// NewManager returns a Manager that runs nothing yet. Stop it with StopAll.
func NewManager(c Config) *Manager {
	ctx, cancel := context.WithCancel(context.Background())
	return &Manager{
		reaper: c.Reaper, log: c.Log, dirs: c.UnitDirs, logDir: c.LogDir, env: c.Env,
		ctx: ctx, cancel: cancel, services: map[string]*service{},
	}
}

// LogPath returns the path of a unit's log.
func (m *Manager) LogPath(name string) string {
	return filepath.Join(m.logDir, unit.ShortName(name)+".log")
}

// errShutdown is the error of all starts during shutdown.
var errShutdown = errors.New("the host is shutting down")

// service returns the service of an existing unit. It does not remember names without a unit file.
func (m *Manager) service(name string) (*service, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.services[name]; s != nil {
		return s, nil
	}
	u, err := unit.Load(name, m.dirs)
	if err != nil {
		return nil, err
	}
	if len(u.Ignored) > 0 {
		m.log.Printf("%s: these have no effect on a local host: %v", name, u.Ignored)
	}
	s := &service{name: name, m: m, state: Inactive, sub: "dead", result: "success", since: time.Now()}
	m.services[name] = s
	return s, nil
}

// Start starts a service and waits until it is active or has failed.
func (m *Manager) Start(ctx context.Context, name string) error {
	s, err := m.service(name)
	if err != nil {
		return err
	}
	return s.Start(ctx)
}

// Stop stops a service and waits until it has stopped.
func (m *Manager) Stop(ctx context.Context, name string) error {
	s, err := m.service(name)
	if err != nil {
		return err
	}
	return s.Stop(ctx)
}

// Restart stops and starts a service.
func (m *Manager) Restart(ctx context.Context, name string) error {
	if err := m.Stop(ctx, name); err != nil {
		return err
	}
	return m.Start(ctx, name)
}

// Status describes a service.
type Status struct {
	Name     string
	State    State
	Sub      string
	Result   string
	PID      int
	Exit     string // how the last main process ended, in words
	Code     int
	Restarts int
	Since    time.Time
}

// Status returns the status of a service. For a service that was started before, the unit file may be missing.
func (m *Manager) Status(name string) (Status, error) {
	s, err := m.service(name)
	if err != nil {
		return Status{}, err
	}
	return s.status(), nil
}

func (s *service) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Status{s.name, s.state, s.sub, s.result, s.pid, s.exit, s.code, s.restarts, s.since}
}

// List returns the services used since the boot, sorted.
func (m *Manager) List() []Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Status
	for _, s := range m.services {
		out = append(out, s.status())
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

// StartEnabled starts the enabled services in the order of After. It waits for oneshots, and for the first attempt of
// the others. It logs failures and continues.
func (m *Manager) StartEnabled(ctx context.Context) {
	names, err := unit.WantedAtBoot(m.dirs[0])
	if err != nil {
		m.log.Print(err)
		return
	}
	var units []*unit.Unit
	for _, name := range names {
		u, err := unit.Load(name, m.dirs)
		if err != nil {
			m.log.Printf("%s is enabled but can't be started: %v", name, err)
			continue
		}
		units = append(units, u)
	}
	for _, name := range order(units) {
		if err := m.Start(ctx, name); err != nil {
			m.log.Printf("starting %s: %v", name, err)
		}
	}
}

// order sorts units so that each follows the units that it names in After. Units in a cycle come last, in the given
// order.
func order(units []*unit.Unit) []string {
	waiting := map[string]bool{}
	for _, u := range units {
		waiting[u.Name] = true
	}
	var out []string
	for len(waiting) > 0 {
		before := len(out)
		for _, u := range units {
			if waiting[u.Name] && !anyOf(waiting, u.After, u.Name) {
				delete(waiting, u.Name)
				out = append(out, u.Name)
			}
		}
		if len(out) == before {
			for _, u := range units {
				if waiting[u.Name] {
					out = append(out, u.Name)
				}
			}
			return out
		}
	}
	return out
}

func anyOf(set map[string]bool, names []string, but string) bool {
	for _, n := range names {
		if n != but && set[n] {
			return true
		}
	}
	return false
}

// StopAll stops all services at the same time, for good.
func (m *Manager) StopAll() {
	m.gate.Lock()
	m.closed = true
	m.gate.Unlock()
	m.cancel()
	m.running.Wait()
}

// enter registers a running service, which must call m.running.Done when it ends. After StopAll, enter refuses.
func (m *Manager) enter() error {
	m.gate.Lock()
	defer m.gate.Unlock()
	if m.closed {
		return errShutdown
	}
	m.running.Add(1)
	return nil
}
