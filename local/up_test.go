package local

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/internal/hint"
)

// TestUpAndDown follows the life of a plane in a real dock: up, up again, down, up with the earlier state, down with
// deletion.
func TestUpAndDown(t *testing.T) {
	w := newWorld(t, steady)
	ctx := limit(t)
	w.register(inPhase(infrav1.HostOff, infrav1.HostEnrolling)...)
	w.listen = func(e Event) {
		if e.Kind == StepWaiting && e.Text == "1 of 2 hosts" {
			w.register(inPhase(infrav1.HostOff, infrav1.HostOff)...)
		}
	}

	plane, err := w.up(ctx, UpOptions{Hosts: 2})
	want := Plane{Kubeconfig: filepath.Join(w.Home, "kubeconfig"), Hosts: 2, KubernetesVersion: "v1.36.3"}
	if err != nil || plane != want {
		t.Fatalf("got %+v, %v, want %+v", plane, err, want)
	}
	if events := w.events(); !slices.Equal(slices.DeleteFunc(events, isWait), []string{
		"Started dock started", "Done dock started", "Started API server relay", "Done API server relay",
		"Started management plane ready", "Done management plane ready", "Started inventory registered",
		"Done inventory registered",
	}) {
		t.Errorf("Up sent the events %q", events)
	}
	if events := w.events(); !slices.Contains(events, "Waiting inventory registered 1 of 2 hosts") {
		t.Errorf("Up did not send what it waited for: %q", events)
	}
	status, err := Status(ctx, w.Place)
	if err != nil || status.Dock != PhaseRunning || status.Plane != PhaseReady || status.Kubeconfig != want.Kubeconfig ||
		status.Server == "" {
		t.Errorf("the status is %+v, %v", status, err)
	}
	if again, err := w.up(ctx, UpOptions{}); err != nil || again != want {
		t.Errorf("a second Up returned %+v, error %v", again, err)
	}

	if err := Down(ctx, DownOptions{Home: w.Home}); err != nil {
		t.Fatal(err)
	}
	if status, err := Status(ctx, w.Place); err != nil || status.Dock != PhaseStopped || status.Plane != PhaseStopped {
		t.Errorf("after Down, the status is %+v, error %v", status, err)
	}
	if again, err := w.up(ctx, UpOptions{}); err != nil || again != want {
		t.Errorf("Up after Down returned %+v, error %v", again, err)
	}
	if err := Down(ctx, DownOptions{Home: w.Home, Delete: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(w.Home); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the home directory still exists: %v", err)
	}
}

func isWait(event string) bool { return strings.HasPrefix(event, string(StepWaiting)) }

func TestUpReportsAPlaneThatCrashes(t *testing.T) {
	w := newWorld(t, "echo the disk is on fire; exit 1")
	_, err := w.up(limit(t), UpOptions{Hosts: 1})
	if err == nil || !strings.Contains(err.Error(), "keeps crashing") ||
		!strings.Contains(err.Error(), "the disk is on fire") {
		t.Errorf("error %v, want one that shows the log", err)
	}
	if !strings.Contains(hint.Of(err), filepath.Join(w.Home, "plane", "logs", "plane.log")) {
		t.Errorf("the hint %q does not name the log", hint.Of(err))
	}
	status, err := Status(t.Context(), w.Place)
	if err != nil || status.Dock != PhaseRunning || status.Plane == PhaseReady {
		t.Errorf("the status is %+v, %v", status, err)
	}
}

func TestUpReportsAPlaneThatHangs(t *testing.T) {
	w := newWorld(t, "echo thinking; exec sleep 600")
	_, err := w.up(limit(t), UpOptions{Hosts: 1, Timeout: 3 * time.Second})
	if err == nil || !strings.Contains(err.Error(), "not become ready in time") ||
		!strings.Contains(err.Error(), "thinking") ||
		hint.Of(err) == "" {
		t.Errorf("error %v with the hint %q", err, hint.Of(err))
	}
}

// TestUpStartsADockThatEnds: a dock that keeps stopping is started three times.
func TestUpStartsADockThatEnds(t *testing.T) {
	w := newWorld(t, steady)
	ctx := limit(t)
	ends := 0
	w.listen = func(e Event) {
		if e.Kind == StepStarted && e.Step == "inventory registered" {
			ends++
			if err := stopTheDock(ctx, w.Home); err != nil {
				t.Error(err)
			}
		}
	}
	_, err := w.up(ctx, UpOptions{Hosts: 1})
	if !errors.Is(err, ErrDockEnded) || hint.Of(err) == "" {
		t.Errorf("error %v with the hint %q, want %v", err, hint.Of(err), ErrDockEnded)
	}
	notes := slices.DeleteFunc(w.events(), func(e string) bool { return !strings.HasPrefix(e, string(Note)) })
	if len(notes) != maxStarts-1 || ends != maxStarts {
		t.Errorf("Up sent %q for %d starts, want %d starts with a note between each two", notes, ends, maxStarts)
	}
}

func TestUpRefuses(t *testing.T) {
	good := newWorld(t, steady)
	empty := t.TempDir()
	for name, c := range map[string]struct {
		options UpOptions
		want    string
	}{
		"no home directory": {UpOptions{Place: Place{Binaries: good.Binaries}}, "the home directory is missing"},
		"no binaries":       {UpOptions{Place: Place{Home: good.Home}}, "with Capstan's binaries is missing"},
		"a directory without binaries": {
			UpOptions{Place: Place{Home: good.Home, Binaries: empty}}, "capstan is missing",
		},
		"a negative number of hosts": {UpOptions{Place: good.Place, Hosts: -1}, "the number of hosts can't be -1"},
		"too many hosts": {
			UpOptions{Place: good.Place, Hosts: MaxHosts + 1}, "the number of hosts can't be 201",
		},
		"a feature gate that does not exist": {UpOptions{Place: good.Place, FeatureGates: map[string]bool{"Nonsense": true}},
			`there is no feature gate "Nonsense"`},
		"feature gates that contradict each other": {UpOptions{Place: good.Place,
			FeatureGates: map[string]bool{"RuntimeSDK": false, "InPlaceUpdates": true}}, "InPlaceUpdates needs RuntimeSDK"},
		"a path that is too long": {UpOptions{Place: Place{Home: "/" + strings.Repeat("x", 95), Binaries: good.Binaries}},
			"at most 90"},
		"a home directory that can't be created": {
			UpOptions{Place: Place{Home: "/proc/self/none", Binaries: good.Binaries}},
			"making the home directory"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Up(t.Context(), c.options); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
	if err := os.Remove(filepath.Join(good.Binaries, "bundles", "v1.36.3", "capstan-kube")); err != nil {
		t.Fatal(err)
	}
	if _, err := Up(t.Context(), UpOptions{Place: good.Place}); hint.Of(err) != "run: make build" {
		t.Errorf("Up without a bundle: got error %v with the hint %q", err, hint.Of(err))
	}
}

func TestDockIsGone(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"the dock stopped during a wait":      {ErrDockEnded, true},
		"the dock was killed before the call": {dock.ErrNotRunning, true},
		"the disk is full":                    {&dock.Error{Code: dock.CodeNoSpace, Message: "full"}, false},
	} {
		if got := dockIsGone(c.err); got != c.want {
			t.Errorf("%s: dockIsGone returned %t", name, got)
		}
	}
}
