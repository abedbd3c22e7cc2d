package local

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/capstan-dev/capstan/internal/gates"
	"github.com/capstan-dev/capstan/internal/home"
)

func TestSettled(t *testing.T) {
	s := &starter{home: home.Dir(t.TempDir())}
	for name, c := range map[string]struct {
		status PlaneStatus
		ready  bool
		fails  bool
	}{
		"a ready plane": {PlaneStatus{Dock: PhaseRunning, Plane: PhaseReady}, true, false},
		"a plane that is ready after restarts": {
			PlaneStatus{Dock: PhaseRunning, Plane: PhaseReady, Restarts: 9}, true, false,
		},
		"a starting plane": {
			PlaneStatus{Dock: PhaseRunning, Plane: PhaseStarting, Restarts: 2}, false, false,
		},
		"a plane that crashed twice": {PlaneStatus{Dock: PhaseRunning, Plane: PhaseStopped, Restarts: 4}, false, false},
		"a plane that crashed three times": {
			PlaneStatus{Dock: PhaseRunning, Plane: PhaseStopped, Restarts: 5}, false, true,
		},
		"the dock has stopped": {PlaneStatus{Dock: PhaseStopped, Plane: PhaseStopped}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			ready, err := s.settled(c.status, 2)
			if ready != c.ready || (err != nil) != c.fails {
				t.Errorf("got ready %t, error %v", ready, err)
			}
			if c.status.Dock == PhaseStopped && !errors.Is(err, ErrDockEnded) {
				t.Errorf("error %v, want %v", err, ErrDockEnded)
			}
		})
	}
}

func TestThePlaneIsToldTheFeatureGates(t *testing.T) {
	s := &starter{home: home.Dir(t.TempDir()), hosts: 3}
	if argv := s.unit("127.0.0.1:1").Argv; slices.Contains(argv, "--feature-gates") {
		t.Errorf("without a choice, the plane is run as %q", argv)
	}
	s.gates = gates.Set{"RuntimeSDK": false, "MachinePool": true}
	argv := s.unit("127.0.0.1:1").Argv
	if at := slices.Index(argv, "--feature-gates"); at < 0 || argv[at+1] != "MachinePool=true,RuntimeSDK=false" {
		t.Errorf("the plane is run as %q", argv)
	}
}

// TestAnotherBuildIsAnotherUnit: the dock restarts a unit whose description has changed.
func TestAnotherBuildIsAnotherUnit(t *testing.T) {
	program := filepath.Join(t.TempDir(), "capstan")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s := &starter{home: home.Dir(t.TempDir()), capstan: program, hosts: 3}
	write("one")
	first := s.unit("127.0.0.1:1")
	if again := s.unit("127.0.0.1:1"); !reflect.DeepEqual(again, first) {
		t.Errorf("the same build is another unit: it is %+v, was %+v", again, first)
	}
	write("another")
	other := s.unit("127.0.0.1:1")
	if slices.Equal(other.Env, first.Env) || !slices.Equal(other.Argv, first.Argv) {
		t.Errorf("another build at the same path is the same unit: %+v", other)
	}
}

func TestLastLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if got := lastLines(path, 2); got != "" {
		t.Errorf("a missing file has the lines %q", got)
	}
	for content, want := range map[string]string{
		"":                  "",
		"one\n":             "one\n",
		"one\ntwo\nthree\n": "two\nthree\n",
		"one\ntwo\nthree":   "two\nthree",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := lastLines(path, 2); got != want {
			t.Errorf("the last lines of %q are %q, want %q", content, got, want)
		}
	}
}

func TestPlaneEnvironment(t *testing.T) {
	set := map[string]string{AuditVariable: "/log", "SECRET": "x"}
	got := planeEnvironment(func(name string) string { return set[name] })
	if want := []string{"GOGC=75", AuditVariable + "=/log"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
