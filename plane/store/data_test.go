package store

import (
	"os"
	"path/filepath"
	"testing"
)

// fill creates directories, each with a file that names it.
func fill(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, "is"), []byte(filepath.Base(path)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSettle lists what a kill can leave, and which data is used afterwards.
func TestSettle(t *testing.T) {
	for name, c := range map[string]struct {
		left []string
		want string
	}{
		"before the first start":                      {nil, ""},
		"no replacement":                              {[]string{"etcd"}, "etcd"},
		"killed while the new directory was created":  {[]string{"etcd", "etcd.snapshot", "etcd.new"}, "etcd"},
		"killed between the two renames":              {[]string{"etcd.old", "etcd.new", "etcd.snapshot"}, "etcd.old"},
		"killed before the old directory was removed": {[]string{"etcd", "etcd.old", "etcd.snapshot"}, "etcd"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, path := range c.left {
				fill(t, filepath.Join(dir, path))
			}
			data := Data(filepath.Join(dir, "etcd"))
			if empty, err := data.Empty(); err != nil || empty != (c.want == "") {
				t.Errorf("Empty returned %v, error %v", empty, err)
			}
			for range 2 {
				if err := data.Settle(); err != nil {
					t.Fatal(err)
				}
			}
			if got, _ := os.ReadFile(filepath.Join(string(data), "is")); string(got) != c.want {
				t.Errorf("the data is that of %q, want that of %q", got, c.want)
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) > 1 {
				t.Errorf("other files are left: %v, error %v", entries, err)
			}
		})
	}
}

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	data := Data(filepath.Join(dir, "etcd"))
	fill(t, string(data))
	if err := data.Replace(nil); err == nil {
		t.Error("Replace without a new directory returned no error")
	}
	if got, _ := os.ReadFile(filepath.Join(string(data), "is")); string(got) != "etcd" {
		t.Fatalf("after the failure, the data is that of %q", got)
	}
	fill(t, data.New())
	if err := data.Replace(nil); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(filepath.Join(string(data), "is")); string(got) != "etcd.new" {
		t.Errorf("after the replacement, the data is that of %q", got)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("other files are left: %v, error %v", entries, err)
	}
}
