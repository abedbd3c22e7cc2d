package regular

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(
		os.WriteFile(path("small"), []byte("12345678"), 0o600), os.WriteFile(path("large"), []byte("123456789"), 0o600),
		os.WriteFile(path("sparse"), nil, 0o600), os.Truncate(path("sparse"), 1<<40),
		syscall.Mkfifo(path("pipe"), 0o600), syscall.Mknod(path("socket"), syscall.S_IFSOCK|0o600, 0),
		os.Mkdir(path("directory"), 0o700), os.Symlink("/dev/zero", path("device")), os.Symlink(path("small"), path("link")),
	); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]error{
		"small": nil, "link": nil, "large": ErrSize, "sparse": ErrSize, "pipe": ErrKind, "directory": ErrKind,
		"device": ErrKind,
		"socket": syscall.ENXIO, "missing": fs.ErrNotExist,
	} {
		data, err := Read(path(name), 8)
		if !errors.Is(err, want) || want == nil && string(data) != "12345678" {
			t.Errorf("reading %s: got %q, error %v, want %v", name, data, err, want)
		}
	}
}
