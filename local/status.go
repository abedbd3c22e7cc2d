package local

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/internal/home"
	"github.com/capstan-dev/capstan/plane/progress"
)

// Phase is how far the dock or the plane is.
type Phase string

// The phases: the dock is Running or Stopped, the plane is Ready, Starting or Stopped.
const (
	PhaseStopped  Phase = "Stopped"
	PhaseStarting Phase = "Starting"
	PhaseReady    Phase = "Ready"
	PhaseRunning  Phase = "Running"
)

// PlaneStatus describes a management plane as it is now. Its JSON form is stable.
type PlaneStatus struct {
	Home     string `json:"home"`
	Dock     Phase  `json:"dock"`  // Running or Stopped
	Plane    Phase  `json:"plane"` // Ready, Starting or Stopped
	Rootless bool   `json:"rootless"`
	// Server is the URL of the API server on this machine.
	Server string `json:"server,omitempty"`
	// Listen is the URL by which other computers reach the API server, and Enrolment that of the server by which hosts
	// enroll; empty if only this machine reaches the plane.
	Listen    string `json:"listen,omitempty"`
	Enrolment string `json:"enrolment,omitempty"`
	// Metrics is where metrics are served, as ADDRESS:PORT; empty: nowhere.
	Metrics string `json:"metrics,omitempty"`
	// Kubeconfig is the path of the user's kubeconfig while the plane is Ready.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// Versions are the Kubernetes versions that bundles exist for, newest first.
	Versions []string `json:"kubernetesVersions"`
	HostsOn  int      `json:"hostsOn"`
	// Restarts counts how often the plane was started again since it was started first.
	Restarts int `json:"planeRestarts"`
	// Warnings are what somebody should do something about while the plane works, such as an etcd that is nearly full.
	Warnings []string `json:"warnings,omitempty"`
	// FeatureGates are those of Cluster API, by upstream's names, while the plane runs.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// AuditLog is the path of the log of who read or changed hosts and Secrets, while the plane runs.
	AuditLog string `json:"auditLog,omitempty"`
	// Error is what keeps the plane from working.
	Error string `json:"error,omitempty"`
}

// statusLimit bounds one question to the dock.
const statusLimit = 10 * time.Second

// Status asks the dock how it is, and looks whether the plane is ready. A dock that does not run is no error.
func Status(ctx context.Context, place Place) (PlaneStatus, error) {
	dir, bin, err := place.find()
	if err != nil {
		return PlaneStatus{}, err
	}
	s := PlaneStatus{Home: string(dir), Dock: PhaseStopped, Plane: PhaseStopped}
	if bin != "" {
		s.Versions = bin.Bundles()
	}
	ctx, cancel := context.WithTimeout(ctx, statusLimit)
	defer cancel()
	docked := dock.Connect(string(dir))
	defer docked.Close()
	d, err := docked.Status(ctx)
	if errors.Is(err, dock.ErrNotRunning) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	var ready time.Time
	if file, err := os.Stat(dir.Ready()); err == nil {
		ready = file.ModTime()
	}
	s.describe(d, ready)
	if kept, err := readChoices(dir); err == nil {
		s.Listen, s.Enrolment = kept.Listen.Server(), kept.Listen.Enrolment()
		s.Metrics = kept.Metrics
	}
	if s.Plane == PhaseReady {
		s.Kubeconfig = dir.Kubeconfig()
	}
	if s.Plane != PhaseStopped {
		s.AuditLog = dir.Audit()
		s.report(dir)
		if text := diskWarning(dir); text != "" {
			s.Warnings = append(s.Warnings, text)
		}
	}
	return s, nil
}

// report adds what the plane itself says: its feature gates, and what it warns of, sorted by what that is about.
func (s *PlaneStatus) report(dir home.Dir) {
	state, err := progress.Read(dir.Plane())
	if err != nil {
		return // it begins: there is nothing to say
	}
	s.FeatureGates = state.FeatureGates
	for _, about := range slices.Sorted(maps.Keys(state.Warnings)) {
		s.Warnings = append(s.Warnings, state.Warnings[about])
	}
}

// describe sums up what a dock holds; ready is when the file was written that a ready plane leaves, zero if it is
// missing.
func (s *PlaneStatus) describe(d dock.Status, ready time.Time) {
	s.Dock, s.Rootless = PhaseRunning, d.Rootless
	for _, h := range d.Hosts {
		if h.State == dock.HostRunning {
			s.HostsOn++
		}
	}
	for _, u := range d.Units {
		if u.Name != planeUnit {
			continue
		}
		s.Restarts = u.Restarts
		switch {
		case u.Running && isOf(ready, u.Since):
			s.Plane = PhaseReady
		case u.Running:
			s.Plane = PhaseStarting
		case u.LastExit != "":
			s.Error = "the plane " + u.LastExit + "; see " + dock.UnitLog(s.Home, planeUnit)
		}
	}
	for _, r := range d.Relays {
		if (r.Name == publishedServer || r.Name == publishedEnrolment) && r.Error != "" {
			s.Warnings = append(s.Warnings, "other computers can't reach the plane: "+r.Error)
		}
		if r.Name == publishedMetrics && r.Error != "" {
			s.Warnings = append(s.Warnings, "metrics are not served: "+r.Error)
		}
		if r.Name == planeUnit {
			s.Server = "https://" + r.Local
			if r.Error != "" {
				s.Error = r.Error
			}
		}
	}
}

// isOf reports whether a plane that started at a moment has written a file: one that was killed leaves its own until
// the next one starts. Clocks of file systems are a little behind.
func isOf(written, started time.Time) bool { return written.After(started.Add(-20 * time.Millisecond)) }
