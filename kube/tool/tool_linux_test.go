package tool

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func run(name string, args ...string) (code int, stdout, stderr string) {
	var out, errOut bytes.Buffer
	code = Run(name, args, &out, &errOut)
	return code, out.String(), errOut.String()
}

func TestCopyOfATree(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	if err := os.MkdirAll(filepath.Join(from, "sub"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(from, "sub", "file"), []byte("content"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("sub/file", filepath.Join(from, "link")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(from, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := run("cp", from, to); code == 0 || !strings.Contains(stderr, "use -r") {
		t.Errorf("copying a directory without -r: %d, %q", code, stderr)
	}
	for _, want := range []string{to, filepath.Join(to, "from")} { // the second copy goes into the existing directory
		if code, _, stderr := run("cp", "-r", from, to); code != 0 {
			t.Fatalf("cp failed: %s", stderr)
		}
		data, err := os.ReadFile(filepath.Join(want, "sub", "file"))
		if err != nil || string(data) != "content" {
			t.Errorf("the copy has %q, %v", data, err)
		}
		if link, err := os.Readlink(filepath.Join(want, "link")); err != nil || link != "sub/file" {
			t.Errorf("the link goes to %q, %v", link, err)
		}
		if info, err := os.Stat(filepath.Join(want, "sub", "file")); err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("the copy has mode %v, %v", info.Mode(), err)
		}
	}
}

func TestMountOptions(t *testing.T) {
	cases := map[string]struct {
		opts  string
		flags uintptr
		data  string
	}{
		"no options":             {"", 0, ""},
		"flags":                  {"ro,nosuid", unix.MS_RDONLY | unix.MS_NOSUID, ""},
		"flags and data":         {"size=1m,noexec,mode=755", unix.MS_NOEXEC, "size=1m,mode=755"},
		"a recursive bind mount": {"rbind", unix.MS_BIND | unix.MS_REC, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			flags, data := parseMountOptions(c.opts)
			if flags != c.flags || data != c.data {
				t.Errorf("got %#x, %q; want %#x, %q", flags, data, c.flags, c.data)
			}
		})
	}
}

func TestErrorsSayWhat(t *testing.T) {
	cases := map[string]struct {
		args []string
		want string
	}{
		"no such tool":           {[]string{"fdisk"}, "fdisk: there is no such tool"},
		"mount without a target": {[]string{"mount", "/a"}, "fstab is not read"},
		"mount at a missing directory": {[]string{"mount", "-t", "tmpfs", "x", "/no/such/directory"},
			"mounting x at /no/such/directory"},
		"umount without a target":       {[]string{"umount"}, "give a target"},
		"umount of a missing directory": {[]string{"umount", "/no/such/directory"}, "unmounting /no/such/directory"},
		"an unknown option":             {[]string{"cp", "--sparse", "a", "b"}, "sparse"},
		"a loop device":                 {[]string{"losetup", "/dev/loop0", "file"}, "no loop devices"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			code, _, stderr := run(c.args[0], c.args[1:]...)
			if code != 1 || !strings.Contains(stderr, c.want) {
				t.Errorf("exit code %d, %q; want 1 and %q", code, stderr, c.want)
			}
		})
	}
}

func TestListingsWork(t *testing.T) {
	if code, out, _ := run("mount"); code != 0 || !strings.Contains(out, " / ") {
		t.Errorf("mount lists %q (exit code %d)", out, code)
	}
	if code, out, _ := run("losetup", "-a"); code != 0 || out != "" {
		t.Errorf("losetup lists %q (exit code %d)", out, code)
	}
}
