package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/internal/hint"
	"github.com/capstan-dev/capstan/plane/seal"
)

// TestUpOfAnotherBuild: the running plane is replaced if its program has changed, and only then.
func TestUpOfAnotherBuild(t *testing.T) {
	w := newWorld(t, steady)
	w.register(inPhase(infrav1.HostOff)...)
	ctx := limit(t)
	if _, err := w.up(ctx, UpOptions{Hosts: 1}); err != nil {
		t.Fatal(err)
	}
	first := w.plane(ctx, t)
	if _, err := w.up(ctx, UpOptions{}); err != nil {
		t.Fatal(err)
	}
	if again := w.plane(ctx, t); again.PID != first.PID || !again.Since.Equal(first.Since) {
		t.Errorf("the plane of the same build was restarted: it is %+v, was %+v", again, first)
	}
	w.binary(t, "next", steady+" # another build")
	if err := os.Rename(filepath.Join(w.Binaries, "next"), filepath.Join(w.Binaries, "capstan")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.up(ctx, UpOptions{}); err != nil {
		t.Fatal(err)
	}
	other := w.plane(ctx, t)
	if other.PID == first.PID || !other.Running || !slices.Equal(other.Argv, first.Argv) {
		t.Errorf("another build at the same path did not replace the plane: it is %+v, was %+v", other, first)
	}
}

// TestUpFromAnotherDirectory: while a dock runs, Up with binaries from another directory is refused before it changes
// the choices, requests a key or stops anything.
func TestUpFromAnotherDirectory(t *testing.T) {
	w := newWorld(t, steady)
	w.register(inPhase(infrav1.HostOff)...)
	ctx := limit(t)
	if _, err := w.up(ctx, UpOptions{Hosts: 1}); err != nil {
		t.Fatal(err)
	}
	keys := filepath.Join(w.Home, "plane", "encryption")
	ring, err := seal.Open(keys, true, nil)
	if err == nil {
		err = ring.Save()
	}
	if err != nil {
		t.Fatal(err)
	}
	was, plane := w.chosen(t), w.plane(ctx, t)

	other := newWorld(t, steady)
	_, err = Up(ctx, UpOptions{
		Place: Place{Home: w.Home, Binaries: other.Binaries}, Hosts: 2, RotateKeys: true,
		FeatureGates: map[string]bool{"RuntimeSDK": false, "InPlaceUpdates": false},
	})
	var refused *dock.BinDirError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), w.Binaries) ||
		!strings.Contains(hint.Of(err), "install these binaries in "+w.Binaries) {
		t.Errorf("Up with binaries from another directory: got error %v with the hint %q", err, hint.Of(err))
	}
	if is := w.chosen(t); is != was {
		t.Errorf("the refused Up changed the choices from %s to %s", was, is)
	}
	if _, err := os.Stat(filepath.Join(keys, "rotate")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the refused Up requested a new key: %v", err)
	}
	if is := w.plane(ctx, t); is.PID != plane.PID || !is.Running {
		t.Errorf("the refused Up changed the plane from %+v to %+v", plane, is)
	}

	if err := Down(ctx, DownOptions{Home: w.Home}); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(w.Binaries, "capstan.kubeconfig"),
		filepath.Join(other.Binaries, "capstan.kubeconfig")); err != nil {
		t.Fatal(err) // the script that acts as the plane needs this file next to it
	}
	if _, err := Up(ctx, UpOptions{Place: Place{Home: w.Home, Binaries: other.Binaries}}); err != nil {
		t.Errorf("Up with the other binaries after Down: %v", err)
	}
	if err := Down(ctx, DownOptions{Home: w.Home}); err != nil {
		t.Error(err)
	}
}

// chosen returns the choices in the home directory.
func (w *world) chosen(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(w.Home, choicesFile))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// plane returns the plane's unit.
func (w *world) plane(ctx context.Context, t *testing.T) dock.UnitStatus {
	t.Helper()
	docked := dock.Connect(w.Home)
	defer docked.Close()
	units, err := docked.ListUnits(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range units {
		if u.Name == planeUnit {
			return u
		}
	}
	t.Fatalf("there is no plane: %+v", units)
	return dock.UnitStatus{}
}
