package backup

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Scratch removes the directory of a killed process, but not that of a live one.
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
			t.Errorf("%s exists: %v, want %v", filepath.Base(directory), err == nil, want)
		}
	}
	remove()
	removeNext()
	if left, _ := os.ReadDir(parent); len(left) != 1 {
		t.Errorf("directories left: %v", left)
	}
}

// Scratch does not touch other users' files of that name in a shared directory, and follows no link.
func TestScratchOfOthers(t *testing.T) {
	parent, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "data")
	link := filepath.Join(parent, scratchPrefix+"link")
	if err := os.MkdirAll(elsewhere, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, link); err != nil {
		t.Fatal(err)
	}
	theirs := filepath.Join(parent, scratchPrefix+"theirs")
	if err := os.Mkdir(theirs, 0o700); err != nil {
		t.Fatal(err)
	}
	stay := []string{elsewhere, link}
	if os.Geteuid() == 0 { // only root can give a directory to another user
		if err := os.Chown(theirs, 5678, 5678); err != nil {
			t.Fatal(err)
		}
		stay = append(stay, theirs)
	}
	old := time.Now().Add(-2 * unlockedFor)
	for _, directory := range []string{elsewhere, theirs} {
		if err := os.Chtimes(directory, old, old); err != nil {
			t.Fatal(err)
		}
	}
	_, remove, err := Scratch(parent)
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	for _, path := range stay {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("Scratch has removed a file of others: %v", err)
		}
	}
}
