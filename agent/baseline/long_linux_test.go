package baseline

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// plantDeep creates nested directories whose path is too long for a single system call, and a setuid program in the
// innermost one. It returns the program's path below root.
func plantDeep(t *testing.T, root, within string, length int) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(root, within), 0o755); err != nil {
		t.Fatal(err)
	}
	at, err := openDirectory(filepath.Join(root, within))
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("d", 100)
	path := within
	for ; len(path) < length; path += "/" + name {
		if err := unix.Mkdirat(at, name, 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		unix.Close(at)
		if at = next; err != nil {
			t.Fatal(err)
		}
	}
	defer unix.Close(at)
	fd, err := unix.Openat(at, "sh", unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Fchmod(fd, 0o4755); err != nil {
		t.Fatal(err)
	}
	return path + "/sh"
}

// TestLongPaths: a program can't hide below a path that is too long for the kernel. A path longer than longestPath is
// an error and does not pass as clean.
func TestLongPaths(t *testing.T) {
	for _, within := range []string{"/var/tmp", "/opt"} {
		for _, length := range []int{unix.PathMax - 200, unix.PathMax, 2*unix.PathMax + 100, longestPath - 200} {
			root := t.TempDir()
			h := Host{Root: root}
			file := filepath.Join(t.TempDir(), "baseline.gz")
			if _, err := h.Take(t.Context(), file); err != nil {
				t.Fatal(err)
			}
			want := "path " + plantDeep(t, root, within, length) + ", a program with rights of its own"
			found, err := h.Compare(t.Context(), file)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(found, func(f string) bool { return strings.HasPrefix(f, want) }) {
				t.Errorf("a program whose path has %d bytes below %s is not found: %.500q", length, within, found)
			}
		}
		root := t.TempDir()
		plantDeep(t, root, within, longestPath+100)
		if _, err := (Host{Root: root}).Take(t.Context(), filepath.Join(t.TempDir(), "baseline.gz")); err == nil ||
			!strings.Contains(err.Error(), root+within) || !strings.Contains(err.Error(), "is not checked") {
			t.Errorf("the error for a path of more than %d bytes below %s is %.300v", longestPath, within, err)
		}
	}
}

// TestDirents: dirent splits entries as the kernel joined them.
func TestDirents(t *testing.T) {
	root := t.TempDir()
	want := map[string]byte{".": unix.DT_DIR, "..": unix.DT_DIR}
	for n := range 255 {
		name := strings.Repeat("x", n+1)
		if err := os.WriteFile(filepath.Join(root, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		want[name] = unix.DT_REG
	}
	fd, err := openDirectory(root)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for entries := make([]byte, 4096); ; {
		n, err := unix.Getdents(fd, entries)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
		for left := entries[:n]; len(left) > 0; {
			var name []byte
			var kind byte
			name, kind, left = dirent(left)
			if k, ok := want[string(name)]; !ok || kind != k && kind != unix.DT_UNKNOWN {
				t.Errorf("dirent returned a file %q of type %d", name, kind)
			}
			delete(want, string(name))
		}
	}
	if len(want) > 0 {
		t.Errorf("%d files are not listed", len(want))
	}
}
