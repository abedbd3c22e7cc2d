// Package progress is how the plane tells others on the machine, which may not share its network, how far it is: a
// small JSON file, written again at every step and always whole.
//
// While the plane starts there is plane/status.json. Once it is ready there is plane/ready.json too, with the same
// content; it is gone while the plane starts again and after it ended well. After a kill the old files stay until the
// next start, so who needs to know whether the plane lives asks its API server.
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

// Names of the files in the plane's folder.
const (
	StatusFile = "status.json"
	ReadyFile  = "ready.json"
)

// Names of the phases of a start, in the order in which they end on a cold start. Some overlap.
const (
	PhaseKeys              = "keys"               // certificates are there
	PhaseSecrets           = "secrets"            // all Secrets are encrypted with a new key; most starts do not need this
	PhaseEtcd              = "etcd"               // etcd answers
	PhaseAPIServer         = "apiserver"          // the API server answers
	PhaseCRDs              = "crds"               // all definitions are served
	PhaseControllerManager = "controller-manager" // kube-controller-manager was started
	PhaseManager           = "manager"            // webhooks answer, caches are filled
	PhaseSeed              = "seed"               // the objects that a plane starts with are there
)

// Phase is one finished part of a start.
type Phase struct {
	// Name is one of the constants.
	Name string `json:"name"`
	// Start is when it began, in milliseconds after the start of the plane.
	Start int64 `json:"startMilliseconds"`
	// Duration is how long it took, in milliseconds.
	Duration int64 `json:"durationMilliseconds"`
	// Detail says more, for example how many objects were written. May be empty.
	Detail string `json:"detail,omitempty"`
}

// Component is a process that the plane keeps.
type Component struct {
	Name string `json:"name"`
	// Up is whether it does its work now.
	Up bool `json:"up"`
	// Pid is its process id, as the plane sees it.
	Pid int `json:"pid,omitempty"`
	// Restarts counts how often it died and was started again.
	Restarts int `json:"restarts"`
	// LastExit says how it died last; empty if it never did.
	LastExit string `json:"lastExit,omitempty"`
}

// State is the content of the file.
type State struct {
	// Started is when the plane was started.
	Started time.Time `json:"started"`
	// Ready is true from the end of the last phase on.
	Ready bool `json:"ready"`
	// ReadyAfter is how long the start took, in milliseconds; zero while it lasts.
	ReadyAfter int64 `json:"readyAfterMilliseconds,omitempty"`
	// Error says why the start failed; empty otherwise.
	Error string `json:"error,omitempty"`
	// Server is the URL of the API server where the plane runs.
	Server string `json:"server,omitempty"`
	// ClusterAPI is the version of Cluster API.
	ClusterAPI string `json:"clusterAPI,omitempty"`
	// FeatureGates are those of Cluster API.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// SecretsKey is the name of the key that encrypts Secrets in etcd.
	SecretsKey string `json:"secretsKey,omitempty"`
	// CertificatesEnd is when the first certificate ends unless it is renewed before, AuthorityEnds when the first
	// authority does, which nobody renews.
	CertificatesEnd time.Time `json:"certificatesEnd,omitzero"`
	AuthorityEnds   time.Time `json:"authorityEnds,omitzero"`
	// Warnings are what somebody should do something about, by what they are about.
	Warnings map[string]string `json:"warnings,omitempty"`
	// Phases are the finished ones, in the order in which they ended.
	Phases []Phase `json:"phases"`
	// Components are the processes beside the manager.
	Components []Component `json:"components"`
}

// Read returns the state that the plane in folder dir has written last. The error is fs.ErrNotExist if it has written
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

// Writer writes the state of one plane. Its methods may be called at the same time.
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

// State returns the state as it is now; its slices and maps must not be changed.
func (w *Writer) State() State {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

// Update changes the state by do and writes it.
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
		_ = w.Update(func(s *State) { // a full disk must not end the plane
			s.Phases = append(s.Phases, Phase{
				Name: name, Detail: detail,
				Start: begin.Sub(s.Started).Milliseconds(), Duration: w.now().Sub(begin).Milliseconds(),
			})
		})
	}
}

// Component changes what is known about a process.
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

// Warn records what somebody should do something about; an empty text ends it. It writes only what is new.
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
	_ = w.write() // a full disk must not end the plane
}

// Ready says that the start is over.
func (w *Writer) Ready() error {
	return w.Update(func(s *State) {
		s.Ready, s.ReadyAfter = true, w.now().Sub(s.Started).Milliseconds()
	})
}

// End says that the plane ends: with err, or well if err is nil.
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
