// Package progress reports the plane's state to other processes on the machine, which may not share the plane's
// network. The plane's process rewrites a small JSON file atomically at every step.
//
// A starting plane writes plane/status.json. Once it is ready there is also plane/ready.json with the same content,
// which is missing while the plane starts again and after it stopped cleanly. After a kill the old files stay until the
// next start, so to find out whether the plane is alive, call its API server.
package progress

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/internal/atomicfile"
)

// Names of the files in the plane's directory.
const (
	StatusFile = "status.json"
	ReadyFile  = "ready.json"
)

// Names of the phases of a start, in the order in which they end on a cold start. Some overlap.
const (
	PhaseKeys              = "keys"               // certificates exist
	PhaseSecrets           = "secrets"            // all Secrets are encrypted with a new key; most starts do not need this
	PhaseEtcd              = "etcd"               // etcd answers
	PhaseAPIServer         = "apiserver"          // the API server answers
	PhaseCRDs              = "crds"               // all definitions are served
	PhaseControllerManager = "controller-manager" // kube-controller-manager has started
	PhaseManager           = "manager"            // webhooks answer, caches are filled
	PhaseSeed              = "seed"               // the objects that a plane starts with exist
)

// Phase is one finished part of a start.
type Phase struct {
	// Name is one of the constants.
	Name string `json:"name"`
	// Start is when it began, in milliseconds after the start of the plane.
	Start int64 `json:"startMilliseconds"`
	// Duration is how long it took, in milliseconds.
	Duration int64 `json:"durationMilliseconds"`
	// Detail is additional information, for example how many objects were written. May be empty.
	Detail string `json:"detail,omitempty"`
}

// Component is a process that the plane keeps running.
type Component struct {
	Name string `json:"name"`
	// Up reports whether the process works now.
	Up bool `json:"up"`
	// Pid is its process id, as seen by the plane.
	Pid int `json:"pid,omitempty"`
	// Restarts counts how often it died and was restarted.
	Restarts int `json:"restarts"`
	// LastExit says how it last exited; empty if it never did.
	LastExit string `json:"lastExit,omitempty"`
}

// State is the content of the file.
type State struct {
	// Started is when the plane was started.
	Started time.Time `json:"started"`
	// Ready is true once the last phase has ended.
	Ready bool `json:"ready"`
	// ReadyAfter is how long the start took, in milliseconds; zero until it is complete.
	ReadyAfter int64 `json:"readyAfterMilliseconds,omitempty"`
	// Error says why the start failed; empty otherwise.
	Error string `json:"error,omitempty"`
	// Server is the URL of the API server, as seen where the plane runs.
	Server string `json:"server,omitempty"`
	// ClusterAPI is the version of Cluster API.
	ClusterAPI string `json:"clusterAPI,omitempty"`
	// FeatureGates are Cluster API's feature gates.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// SecretsKey is the name of the key that encrypts Secrets in etcd.
	SecretsKey string `json:"secretsKey,omitempty"`
	// CertificatesEnd is when the first certificate expires unless it is renewed. AuthorityEnds is when the first
	// authority expires, which nothing renews.
	CertificatesEnd time.Time `json:"certificatesEnd,omitzero"`
	AuthorityEnds   time.Time `json:"authorityEnds,omitzero"`
	// Warnings are problems that somebody should act on, by subject.
	Warnings map[string]string `json:"warnings,omitempty"`
	// Phases are the finished phases, in the order in which they ended.
	Phases []Phase `json:"phases"`
	// Components are the processes other than the manager.
	Components []Component `json:"components"`
}

// Read returns the state that the plane in directory dir wrote last. The error is fs.ErrNotExist if it has written
// none.
func Read(dir string) (State, error) {
	data, err := os.ReadFile(filepath.Join(dir, StatusFile))
	if err != nil {
		return State{}, fmt.Errorf("reading the plane's state: %w", err)
	}
	var state State
	if err := json.Unmarshal(data, &state); err != nil {
		return State{}, fmt.Errorf("reading the plane's state: %w", err)
	}
	return state, nil
}

// Writer writes the state of one plane. Its methods are safe for concurrent use.
type Writer struct {
	dir string
	now func() time.Time

	mu    sync.Mutex
	state State
}

// Begin removes what an earlier plane wrote in dir, and returns the writer for a new one.
func Begin(dir string) (*Writer, error) {
	for _, name := range []string{ReadyFile, StatusFile} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("removing the state of an earlier plane: %w", err)
		}
	}
	w := &Writer{dir: dir, now: time.Now}
	w.state = State{Started: w.now(), Phases: []Phase{}, Components: []Component{}}
	return w, w.write()
}

// State returns the current state; the caller must not change its slices and maps.
func (w *Writer) State() State {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

// Update changes the state with the function do, and writes the state.
func (w *Writer) Update(do func(*State)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	do(&w.state)
	return w.write()
}

// Phase begins a phase; calling the result ends it.
func (w *Writer) Phase(name string) (end func(detail string)) {
	begin := w.now()
	return func(detail string) {
		_ = w.Update(func(s *State) { // a full disk must not stop the plane
			s.Phases = append(s.Phases, Phase{
				Name: name, Detail: detail,
				Start: begin.Sub(s.Started).Milliseconds(), Duration: w.now().Sub(begin).Milliseconds(),
			})
		})
	}
}

// Component changes the state of a process.
func (w *Writer) Component(name string, change func(*Component)) {
	_ = w.Update(func(s *State) {
		i := slices.IndexFunc(s.Components, func(c Component) bool { return c.Name == name })
		if i < 0 {
			s.Components = append(s.Components, Component{Name: name})
			i = len(s.Components) - 1
		}
		change(&s.Components[i])
	})
}

// Warn records a warning; an empty text removes it. It writes the file only if something changes.
func (w *Writer) Warn(about, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state.Warnings[about] == text {
		return
	}
	if w.state.Warnings == nil {
		w.state.Warnings = map[string]string{}
	}
	w.state.Warnings[about] = text
	if text == "" {
		delete(w.state.Warnings, about)
	}
	_ = w.write() // a full disk must not stop the plane
}

// Ready records that the start is complete.
func (w *Writer) Ready() error {
	return w.Update(func(s *State) {
		s.Ready, s.ReadyAfter = true, w.now().Sub(s.Started).Milliseconds()
	})
}

// End records that the plane stops: because of err, or cleanly if err is nil.
func (w *Writer) End(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state.Ready = false
	for i := range w.state.Components {
		w.state.Components[i].Up, w.state.Components[i].Pid = false, 0
	}
	if err != nil {
		w.state.Error = err.Error()
	}
	_ = w.write()
	_ = os.Remove(filepath.Join(w.dir, ReadyFile))
}

func (w *Writer) write() error {
	data, err := json.MarshalIndent(w.state, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the plane's state: %w", err)
	}
	data = append(data, '\n')
	if err := atomicfile.Write(filepath.Join(w.dir, StatusFile), data, 0o600); err != nil {
		return err
	}
	if w.state.Ready {
		return atomicfile.Write(filepath.Join(w.dir, ReadyFile), data, 0o600)
	}
	return nil
}
