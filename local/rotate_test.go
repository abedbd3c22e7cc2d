package local

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/plane/seal"
)

// TestUpRotatesKeys: the plane is restarted with a request for a new key; if there is no key yet, there is nothing to
// replace.
func TestUpRotatesKeys(t *testing.T) {
	w := newWorld(t, steady)
	w.register(inPhase(infrav1.HostOff)...)
	ctx := limit(t)
	stopped := "Done plane stopped to use its new key"
	if _, err := w.up(ctx, UpOptions{Hosts: 1, RotateKeys: true}); err != nil || slices.Contains(w.events(), stopped) {
		t.Fatalf("the first start with a rotation: got error %v and the events %q", err, w.events())
	}
	directory := filepath.Join(w.Home, "plane", "encryption")
	ring, err := seal.Open(directory, true, nil)
	if err == nil {
		err = ring.Save()
	}
	if err != nil {
		t.Fatal(err)
	}
	ready := filepath.Join(w.Home, "plane", "ready.json")
	before, err := os.Stat(ready)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.up(ctx, UpOptions{RotateKeys: true}); err != nil || !slices.Contains(w.events(), stopped) {
		t.Errorf("a later start with a rotation: got error %v and the events %q", err, w.events())
	}
	if after, err := os.Stat(ready); err != nil || !after.ModTime().After(before.ModTime()) {
		t.Errorf("the plane was not restarted: %v", err)
	}
	request, err := os.ReadFile(filepath.Join(directory, "rotate"))
	if err != nil || string(request) != ring.Keys[0].Name {
		t.Errorf("the request for a new key is %q, error %v", request, err)
	}
}
