package baseline

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestABootMakesDevicesAnew: systemd creates /run/systemd/inaccessible/{blk,chr} at each boot. A host that restarts
// while it is claimed has the same devices with new times, and the new times alone do not count as a difference. Any
// other device is reported.
func TestABootMakesDevicesAnew(t *testing.T) {
	const block, character = unix.S_IFBLK, unix.S_IFCHR
	zero, disk := int64(unix.Mkdev(0, 0)), int64(unix.Mkdev(8, 0))
	cases := []struct {
		name        string
		before, now entry
		want        bool
	}{
		{"a device in run that the next boot recreated", entry{path: "/run/a", mode: block, mtime: 1, ctime: 1},
			entry{path: "/run/a", mode: block, mtime: 2, ctime: 2}, false},
		{"a device elsewhere that was recreated", entry{path: "/opt/a", mode: block, size: disk, mtime: 1, ctime: 1},
			entry{path: "/opt/a", mode: block, size: disk, mtime: 1, ctime: 2}, true},
		{"untouched", entry{path: "/opt/a", mode: block, size: disk, mtime: 1, ctime: 1},
			entry{path: "/opt/a", mode: block, size: disk, mtime: 1, ctime: 1}, false},
		{"another number", entry{path: "/run/a", mode: character, size: disk, mtime: 1, ctime: 1},
			entry{path: "/run/a", mode: character, size: disk + 1, mtime: 1, ctime: 1}, true},
		{"device 0:0 has become a disk", entry{path: "/run/a", mode: block, size: zero, mtime: 1, ctime: 1},
			entry{path: "/run/a", mode: block, size: disk, mtime: 2, ctime: 2}, true},
		{"another kind", entry{path: "/run/a", mode: character, mtime: 1, ctime: 1},
			entry{path: "/run/a", mode: block, mtime: 1, ctime: 1}, true},
		{"everybody may access the device now", entry{path: "/run/a", mode: block, mtime: 1, ctime: 1},
			entry{path: "/run/a", mode: block | 0o666, mtime: 1, ctime: 1}, true},
		{"another owner", entry{path: "/run/a", mode: block, mtime: 1, ctime: 1},
			entry{path: "/run/a", mode: block, uid: 1000, mtime: 1, ctime: 1}, true},
		{"an untouched device that an earlier agent recorded without a number",
			entry{path: "/run/a", mode: block, mtime: 1, ctime: 1},
			entry{path: "/run/a", mode: block, size: disk, mtime: 1, ctime: 1}, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := c.before.differs(c.now); got != c.want {
				t.Errorf("differs is %t, want %t", got, c.want)
			}
		})
	}
}

func TestDevicesAfterABoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes devices")
	}
	root := t.TempDir()
	device := func(path string, mode uint32, major, minor uint32) {
		t.Helper()
		full := filepath.Join(root, path)
		if err := os.Remove(full); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mknod(full, mode, int(unix.Mkdev(major, minor))); err != nil {
			t.Fatal(err)
		}
	}
	boot := func() {
		device("/run/systemd/inaccessible/blk", unix.S_IFBLK, 0, 0)
		device("/run/systemd/inaccessible/chr", unix.S_IFCHR, 0, 0)
		device("/run/tool/null", unix.S_IFCHR, 1, 3)
	}
	boot()
	h := Host{Root: root}
	file := filepath.Join(t.TempDir(), "baseline.gz")
	if _, err := h.Take(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	found := func() []string {
		t.Helper()
		all, err := h.Compare(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(all, func(f string) bool { return len(f) < 5 || f[:5] != "path " })
	}
	boot()
	if got := found(); len(got) > 0 {
		t.Errorf("differences after a boot: %v", got)
	}
	device("/run/tool/null", unix.S_IFBLK, 8, 0)
	device("/run/tool/new", unix.S_IFBLK, 8, 0)
	write(t, filepath.Join(root, "/run/shell"), "shell\n", 0o4755)
	if err := os.Chmod(filepath.Join(root, "/run/shell"), 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"path /run/shell, a program with rights of its own (mode 04755, uid 0)",
		"path /run/tool/new, a device", "path /run/tool/null, a device",
	}
	if got := slices.Sorted(slices.Values(found())); !slices.Equal(got, want) {
		t.Errorf("found %v of what the claim planted, want %v", got, want)
	}
}
