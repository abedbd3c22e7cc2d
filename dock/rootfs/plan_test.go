package rootfs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
)

// machine creates a directory that looks like a machine's root. A path that ends in / is a directory, one with " -> " a
// link; all others are files.
func machine(t *testing.T, paths ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, p := range paths {
		name, target, isLink := strings.Cut(p, " -> ")
		full := filepath.Join(root, name)
		dir := filepath.Dir(full)
		if strings.HasSuffix(p, "/") {
			dir = full
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		switch {
		case isLink:
			err = os.Symlink(target, full)
		case !strings.HasSuffix(p, "/"):
			err = os.WriteFile(full, nil, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
	}
}

func TestPlan(t *testing.T) {
	for name, paths := range map[string][]string{
		"merged.txt": { // Debian, Ubuntu, Fedora
			"bin -> usr/bin", "sbin -> usr/sbin", "lib -> usr/lib", "lib64 -> usr/lib64", "usr/bin/", "usr/sbin/", "usr/lib/",
			"usr/lib64/", "usr/share/", "usr/local/bin/",
			"etc/ssl/", "etc/alternatives/", "etc/ld.so.cache", "etc/localtime -> /usr/share/zoneinfo/UTC", "etc/passwd",
			"etc/shadow", "home/user/", "root/", "boot/", "var/lib/",
		},
		// Alpine, old Debian
		"separate.txt": {"bin/sh", "sbin/", "lib/", "usr/bin/", "usr/sbin/", "usr/lib/", "usr/local/bin/",
			"etc/ssl/", "tmp/"},
		"nix.txt": {"bin/sh -> /nix/store/x/bin/sh", "usr/bin/env -> /nix/store/y/bin/env", "nix/store/",
			"etc/ssl/certs/ca-bundle.crt"},
	} {
		m, err := Inspect(machine(t, paths...))
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, step := range slices.Concat(PlanShared(m, "/srv/capstan/bin"),
			PlanImages("/srv/images/layers", "/srv/host/images"), PlanOwn("1-2-3")) {
			fmt.Fprintln(&b, step)
		}
		golden(t, name, b.String())
	}
}

func TestNothingElseOfTheMachineIsShared(t *testing.T) {
	m, err := Inspect(machine(t, "usr/bin/", "usr/local/secret", "home/user/.ssh/id", "root/.ssh/id", "etc/shadow",
		"var/lib/x", "srv/x", "opt/x", "mnt/x", "proc/", "run/secret"))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range append(PlanShared(m, "/b"), PlanOwn("")...) {
		for _, private := range []string{"/home", "/root", "/etc/shadow", "/var", "/srv", "/mnt", "/usr/local", "/run"} {
			if step.Kind == Bind && !step.Own && strings.HasPrefix(step.Source, private) {
				t.Errorf("the plan shares %s", step.Source)
			}
		}
	}
}

func TestMountsBelowADirectory(t *testing.T) {
	info := `22 27 0:21 / /proc rw - proc proc rw
27 1 254:0 / /a rw - ext4 /dev/vda rw
28 27 0:25 / /a/b\040c ro - tmpfs x ro
29 27 0:25 / /ab ro - tmpfs x ro
30 27 0:25 / /a/b\040c/d ro - tmpfs x ro
`
	mounts, err := mountinfo.GetMountsFromReader(strings.NewReader(info), mountinfo.PrefixFilter("/a"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range mounts {
		got = append(got, m.Mountpoint)
	}
	if want := []string{"/a", "/a/b c", "/a/b c/d"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
