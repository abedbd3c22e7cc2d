package local

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/internal/hint"
	"github.com/capstan-dev/capstan/internal/home"
)

// Environment variables that tune the plane for tests and developers. The plane that Up starts inherits them from the
// process that calls Up. They are not options because nobody else needs them.
const (
	// AuditVariable is the path of an audit log of the API server.
	AuditVariable = "CAPSTAN_AUDIT_LOG"
	// ContractVariable limits the labels on the definitions of a new home to this one version of Cluster API's
	// contract.
	ContractVariable = "CAPSTAN_CONTRACT"
)

const (
	// planeGrace is how long the plane may take to stop.
	planeGrace = 30 * time.Second
	// readyPause is the time between two looks at a starting plane.
	readyPause = 100 * time.Millisecond
	// maxCrashes is how often the plane may exit before it is ready. A single crash may be another process's fault.
	maxCrashes = 3
	// shownLines is how many lines of the plane's log an error shows.
	shownLines = 15
)

// startPlane starts the plane as a unit of the dock and waits until the plane reports that it is ready. server is the
// address at which the user reaches its API server.
func (s *starter) startPlane(ctx context.Context, docked *dock.Client, server string) error {
	unit, err := docked.EnsureUnit(ctx, s.unit(server))
	if err != nil {
		return explainDock(err)
	}
	err = wait.PollUntilContextCancel(ctx, readyPause, true, func(ctx context.Context) (bool, error) {
		status, err := Status(ctx, s.place)
		if err != nil {
			return false, nil // the dock may be stopping; the next call shows whether it is
		}
		ready, err := s.settled(status, unit.Restarts)
		if !ready || err != nil {
			return false, err
		}
		_, err = Connect(string(s.home))
		return err == nil, nil
	})
	if err != nil && ctx.Err() != nil {
		return hint.Errorf("the whole log is "+planeLog(s.home), "the management plane did not become ready in time\n%s",
			lastLines(planeLog(s.home), shownLines))
	}
	return err
}

// unit describes the plane's process to the dock.
func (s *starter) unit(server string) dock.Unit {
	argv := []string{s.capstan, "plane", "--home", string(s.home), "--server", "https://" + server, "--hosts",
		strconv.Itoa(s.hosts)}
	if len(s.gates) > 0 {
		argv = append(argv, "--feature-gates", s.gates.String())
	}
	if s.listen.Everybody() {
		argv = append(argv, "--listen", s.listen.Address)
		for _, name := range s.listen.Names {
			argv = append(argv, "--tls-san", name)
		}
	}
	argv = append(argv, s.bundles.arguments()...)
	return dock.Unit{
		Name:    planeUnit,
		Argv:    argv,
		Env:     append(planeEnvironment(os.Getenv), buildVariable+"="+build(s.capstan)),
		LogFile: planeLog(s.home),
		Grace:   planeGrace,
	}
}

// The plane ignores buildVariable. Because of its value, a new build at the same path is a different unit for the dock,
// so the dock replaces the running unit. That way "capstan up" with a new build upgrades the plane, and hosts keep
// running.
const buildVariable = "CAPSTAN_BUILD"

// build identifies a build of a program. It is empty if there is no program.
func build(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return strconv.FormatInt(info.Size(), 36) + "-" + strconv.FormatInt(info.ModTime().UnixNano(), 36)
}

// planeEnvironment returns the plane's environment variables beyond those that the dock sets for everything.
func planeEnvironment(getenv func(string) string) []string {
	env := []string{"GOGC=75"}
	for _, name := range []string{AuditVariable, ContractVariable} {
		if value := getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// settled reports whether the plane is ready; an error means that it never will be. restarts is the number of restarts
// when the wait began.
func (s *starter) settled(status PlaneStatus, restarts int) (ready bool, err error) {
	switch {
	case status.Plane == PhaseReady:
		return true, nil
	case status.Dock == PhaseStopped:
		return false, ErrDockEnded
	case status.Restarts-restarts >= maxCrashes:
		log := planeLog(s.home)
		return false, hint.Errorf("the whole log is "+log, "the management plane keeps crashing: %s\n%s",
			status.Error, lastLines(log, shownLines))
	}
	return false, nil
}

// planeLog returns the path of the plane's log.
func planeLog(dir home.Dir) string { return filepath.Join(dir.Plane(), "logs", "plane.log") }

// lastLines returns at most the last n lines of a file, or "" if it can't be read.
func lastLines(path string, n int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	if len(lines[len(lines)-1]) == 0 {
		lines = lines[:len(lines)-1]
	}
	return string(bytes.Join(lines[max(0, len(lines)-n):], nil))
}
