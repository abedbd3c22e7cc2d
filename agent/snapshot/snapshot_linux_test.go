package snapshot

import (
	"os"
	"path/filepath"
	"testing"
)

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsDeletedComesBack(t *testing.T) {
	base := t.TempDir()
	one, two, dir := filepath.Join(base, "one"), filepath.Join(base, "two"), filepath.Join(base, "state", "snapshot")
	write(t, filepath.Join(one, "pki", "ca.key"), "key", 0o600)
	write(t, filepath.Join(one, "edited"), "before", 0o640)
	write(t, filepath.Join(two, "x"), "x", 0o755)
	if err := os.Symlink("ca.key", filepath.Join(one, "pki", "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Restore(dir); err != nil {
		t.Fatalf("restoring without a snapshot: %v", err)
	}
	if err := Take(dir, one, two, filepath.Join(base, "missing")); err != nil {
		t.Fatal(err)
	}

	write(t, filepath.Join(one, "edited"), "after", 0o600)
	write(t, filepath.Join(one, "new"), "new", 0o600)
	for _, gone := range []string{filepath.Join(one, "pki"), two} {
		if err := os.RemoveAll(gone); err != nil {
			t.Fatal(err)
		}
	}
	if err := Take(dir, one); err != nil { // a second Take changes nothing
		t.Fatal(err)
	}
	for range 2 {
		if err := Restore(dir); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]struct {
		content string
		mode    os.FileMode
	}{
		filepath.Join(one, "pki", "ca.key"): {"key", 0o600},
		filepath.Join(one, "pki", "link"):   {"key", 0o600},
		filepath.Join(one, "edited"):        {"before", 0o640},
		filepath.Join(one, "new"):           {"new", 0o600},
		filepath.Join(two, "x"):             {"x", 0o755},
	} {
		data, err := os.ReadFile(path)
		info, statErr := os.Stat(path)
		if err != nil || statErr != nil || string(data) != want.content || info.Mode() != want.mode {
			t.Errorf("%s: %q %v %v", path, data, info, err)
		}
	}
	if link, err := os.Readlink(filepath.Join(one, "pki", "link")); err != nil || link != "ca.key" {
		t.Errorf("the link: %q, %v", link, err)
	}
}

func TestASnapshotIsBounded(t *testing.T) {
	base := t.TempDir()
	path := filepath.Join(base, "big", "file")
	write(t, path, "", 0o600)
	if err := os.Truncate(path, sizeLimit+1); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(base, "snapshot")
	if err := Take(dir, filepath.Join(base, "big")); err == nil {
		t.Error("a snapshot may exceed the limit")
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("an incomplete snapshot was kept")
	}
}
