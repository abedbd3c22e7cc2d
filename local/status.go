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

// Phase is the state of the dock or the plane.
type Phase string

// The phases: the dock is Running or Stopped, the plane is Ready, Starting or Stopped.
const (
	PhaseStopped  Phase = "Stopped"
	PhaseStarting Phase = "Starting"
	PhaseReady    Phase = "Ready"
	PhaseRunning  Phase = "Running"
)

// PlaneStatus describes the current state of a management plane. Its JSON form is stable.
type PlaneStatus struct {
	Home  string `json:"home"`
	Dock  Phase  `json:"dock"`  // Running or Stopped
	Plane Phase  `json:"plane"` // Ready, Starting or Stopped
	// Rootless reports that the dock runs in a user namespace; false while the dock is stopped.
	Rootless bool `json:"rootless"`
	// Server is the URL of the API server on this machine.
	Server string `json:"server,omitempty"`
	// Listen is the URL at which other computers reach the API server, and Enrolment that of the enrolment server;
	// empty if only this machine reaches the plane.
	Listen    string `json:"listen,omitempty"`
	Enrolment string `json:"enrolment,omitempty"`
	// Metrics is where metrics are served, as ADDRESS:PORT; empty: nowhere.
	Metrics string `json:"metrics,omitempty"`
	// Kubeconfig is the path of the user's kubeconfig while the plane is Ready.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// Versions are the Kubernetes versions that have a bundle, newest first.
	Versions []string `json:"kubernetesVersions"`
	HostsOn  int      `json:"hostsOn"`
	// Restarts counts how often the plane has restarted since its first start.
	Restarts int `json:"planeRestarts"`
	// Warnings describe problems to act on while the plane still works, such as an etcd that is nearly full.
	Warnings []string `json:"warnings,omitempty"`
	// FeatureGates are Cluster API's feature gates, by their upstream names, while the plane runs.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// AuditLog is the path of the log of accesses to hosts and Secrets, while the plane runs.
	AuditLog string `json:"auditLog,omitempty"`
	// Error says what keeps the plane from working.
	Error string `json:"error,omitempty"`
}

// statusLimit bounds one call to the dock.
const statusLimit = 10 * time.Second

// Status asks the dock for its state and checks whether the plane is ready. It is not an error if no dock runs.
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

// report adds what the plane itself reports: its feature gates, and its warnings, sorted by subject.
func (s *PlaneStatus) report(dir home.Dir) {
	state, err := progress.Read(dir.Plane())
	if err != nil {
		return // still starting: nothing to report yet
	}
	s.FeatureGates = state.FeatureGates
	for _, about := range slices.Sorted(maps.Keys(state.Warnings)) {
		s.Warnings = append(s.Warnings, state.Warnings[about])
	}
}

// describe adds the state of the dock. ready is the time at which a ready plane wrote its state file, or zero if the
// file is missing.
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

// isOf reports whether a file is that of the current plane, given when the file was written and when the plane started.
// A killed plane leaves its file until the next plane starts. File system clocks lag a little.
func isOf(written, started time.Time) bool { return written.After(started.Add(-20 * time.Millisecond)) }
