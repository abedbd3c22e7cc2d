package atomicfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, content := range []string{"first", "second, which is longer", ""} {
		if err := Write(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != content {
			t.Fatalf("the file contains %q, error %v; want %q", got, err, content)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("the file has mode %v, error %v", info.Mode(), err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("want only the file in the directory, got %v, error %v", entries, err)
	}
}

func TestWriteLeavesTheFileOnFailure(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.MkdirAll(filepath.Join(path, "below"), 0o700); err != nil { // a file cannot replace a directory
		t.Fatal(err)
	}
	err := Write(path, []byte("new"), 0o600)
	if err == nil || !strings.Contains(err.Error(), path) {
		t.Fatalf("got error %v, want one that names the file", err)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 1 {
		t.Fatalf("want only the old entry in the directory, got %v", entries)
	}
}
