package local

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/capstan-dev/capstan/internal/home"
)

// TestRemoveHome: what a killed process left is removed; a file that isn't Capstan's keeps the whole directory.
func TestRemoveHome(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home")
	closed := filepath.Join(dir, "dock", "hosts", "host-01", "root", "closed")
	if err := os.MkdirAll(filepath.Join(closed, "directory"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(closed, 0o500); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kubeconfig", ".new-123", ".kubeconfig-123", ".up.json-123", "mine"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := removeHome(home.Dir(dir)); err == nil {
		t.Error("removing a directory with a file that isn't Capstan's returned no error")
	}
	if _, err := os.Stat(closed); err != nil {
		t.Error("removeHome refused to remove the directory, but removed a part of it")
	}
	if err := os.Remove(filepath.Join(dir, "mine")); err != nil {
		t.Fatal(err)
	}
	if err := removeHome(home.Dir(dir)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the home directory still exists: %v", err)
	}
}
