package providers

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestAllow(t *testing.T) {
	dir := t.TempDir()
	if all, err := allowed(dir); err != nil || len(all) != 0 {
		t.Errorf("before the first Allow, the allowed files are %q, error %v", all, err)
	}
	for _, path := range []string{"/opt/a b", "/opt/c", "/opt/a b"} {
		if err := Allow(dir, path); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := allowed(dir); err != nil || !slices.Equal(all, []string{"/opt/a b", "/opt/c"}) {
		t.Errorf("the allowed files are %q, error %v", all, err)
	}
	for _, path := range []string{"", "a", "/a\n/bin/sh"} {
		if err := Allow(dir, path); err == nil {
			t.Errorf("the path %q was allowed", path)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, allowedFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file with the list is %v, error %v", info, err)
	}
	if err := Allow(filepath.Join(dir, "none"), "/opt/a"); err == nil {
		t.Error("a file was allowed for a plane that does not exist")
	}
}
