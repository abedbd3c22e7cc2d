package backup

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// What a process left behind that was killed goes, what a living one works in stays.
func TestScratchOfKilledProcesses(t *testing.T) {
	parent := t.TempDir()
	living, remove, err := Scratch(parent)
	if err != nil {
		t.Fatal(err)
	}
	dead, young := filepath.Join(parent, scratchPrefix+"dead"), filepath.Join(parent, scratchPrefix+"young")
	for _, directory := range []string{dead, young} {
		if err := os.MkdirAll(filepath.Join(directory, "data"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-2 * unlockedFor)
	for _, directory := range []string{living, dead} {
		if err := os.Chtimes(directory, old, old); err != nil {
			t.Fatal(err)
		}
	}
	next, removeNext, err := Scratch(parent)
	if err != nil {
		t.Fatal(err)
	}
	for directory, want := range map[string]bool{living: true, dead: false, young: true, next: true} {
		if _, err := os.Stat(directory); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", filepath.Base(directory), err == nil, want)
		}
	}
	remove()
	removeNext()
	if left, _ := os.ReadDir(parent); len(left) != 1 {
		t.Errorf("left are %v", left)
	}
}
