package baseline

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/agent/internal/testhost"
)

// TestFilesThatMayDiffer covers files that a host changes by itself, that the agent has restored, or that packages
// changed.
func TestFilesThatMayDiffer(t *testing.T) { testhost.Run(t, filesThatMayDiffer) }

func filesThatMayDiffer(t *testing.T) {
	root := t.TempDir()
	in := func(path string) string { return filepath.Join(root, path) }
	write(t, in("/etc/adjtime"), "0.0 0 0.0\n", 0o644)
	write(t, in("/etc/ld.so.cache"), "one\n", 0o644)
	write(t, in("/var/log/syslog"), "one\n", 0o644)
	write(t, in("/opt/restored"), "one\n", 0o644)
	write(t, in("/usr/bin/tool"), "one\n", 0o755)
	write(t, in("/usr/bin/other"), "one\n", 0o755)
	write(t, in("/etc/tool.conf"), "one\n", 0o644)
	write(t, in(dpkg+"/status"), "Package: tool\nVersion: 1\n", 0o644)
	h := Host{Root: root, Packages: true, Known: func(path string) bool { return path == "/opt/restored" }}
	file := filepath.Join(t.TempDir(), "baseline.gz")
	if _, err := h.Take(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	differences := func() string {
		t.Helper()
		found, err := h.Compare(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		found = slices.DeleteFunc(found, func(f string) bool { return !strings.HasPrefix(f, "path ") })
		return strings.Join(found, "\n")
	}

	write(t, in("/etc/adjtime"), "0.1 0 0.0\n", 0o644)
	add(t, in("/var/log/syslog"), "two\n")
	write(t, in("/opt/restored"), "one\n", 0o644)
	if got := differences(); got != "" {
		t.Errorf("files that may differ are reported: %s", got)
	}

	write(t, in("/etc/ld.so.cache"), "two\n", 0o644)
	write(t, in("/usr/bin/tool"), "two\n", 0o755)
	write(t, in("/usr/bin/new"), "new\n", 0o755)
	write(t, in("/etc/tool.conf"), "two\n", 0o644)
	write(t, in("/usr/bin/other"), "evil\n", 0o755)
	if got := differences(); strings.Count(got, "\n") != 4 {
		t.Errorf("found without a change of the package database: %s", got)
	}
	sum := func(text string) string {
		s := md5.Sum([]byte(text))
		return hex.EncodeToString(s[:])
	}
	write(t, in(dpkg+"/status"), fmt.Sprintf(
		"Package: tool\nVersion: 2\nConffiles:\n /etc/tool.conf %s\n", sum("two\n")), 0o644)
	write(t, in(dpkg+"/info/tool.md5sums"), fmt.Sprintf("%s  usr/bin/tool\n%s  usr/bin/new\n%s  usr/bin/other\n",
		sum("two\n"), sum("new\n"), sum("one\n")), 0o644)
	if got, want := differences(), "path /usr/bin/other, which is not as it was before"; got != want {
		t.Errorf("found with a package update: %s, want only %s", got, want)
	}
	h.Packages = false
	if got := differences(); strings.Count(got, "\n") != 4 {
		t.Errorf("found where package updates are not accepted: %s", got)
	}
}

// TestFilesOfRPM: package updates don't count as differences on hosts with rpm either. A script in place of rpm checks
// its arguments, and prints what the test wants in the format of the query.
func TestFilesOfRPM(t *testing.T) { testhost.Run(t, filesOfRPM) }

func filesOfRPM(t *testing.T) {
	root := t.TempDir()
	in := func(path string) string { return filepath.Join(root, path) }
	write(t, in("/usr/bin/tool"), "one\n", 0o755)
	write(t, in("/usr/bin/old"), "one\n", 0o755)
	write(t, in("/usr/bin/other"), "one\n", 0o755)
	write(t, in("/usr/share/doc"), "one\n", 0o644)
	write(t, in("/var/lib/rpm/rpmdb.sqlite"), "one", 0o644)
	h := Host{Root: root, Packages: true}
	file := filepath.Join(t.TempDir(), "baseline.gz")
	if _, err := h.Take(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	strong, weak := sha256.Sum256([]byte("two\n")), md5.Sum([]byte("two\n"))
	bin := t.TempDir()
	write(t, filepath.Join(bin, "rpm"), fmt.Sprintf(`#!/bin/sh
[ "$1 $2 $3 $4" = "--root %s -qa --queryformat" ] || exit 1
[ "$5" = '[%%{FILEDIGESTS} %%{FILENAMES}\n]' ] || exit 1
echo "%x /usr/bin/tool"
echo "%x /usr/bin/old"
echo " /usr/share/tool"
echo "%x /usr/bin/other"
`, root, strong, weak, strong), 0o755)
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	write(t, in("/usr/bin/tool"), "two\n", 0o755)
	write(t, in("/usr/bin/old"), "two\n", 0o755)
	write(t, in("/usr/bin/other"), "evil\n", 0o755)
	if err := os.MkdirAll(in("/usr/share/tool"), 0o755); err != nil {
		t.Fatal(err)
	}
	differences := func() []string {
		t.Helper()
		found, err := h.Compare(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(found, func(f string) bool { return !strings.HasPrefix(f, "path /usr/") })
	}
	if got := differences(); len(got) != 4 {
		t.Errorf("found without a change of the package database: %q", got)
	}
	write(t, in("/var/lib/rpm/rpmdb.sqlite-wal"), "two", 0o644)
	want := []string{"path /usr/bin/other, which is not as it was before"}
	if got := differences(); !slices.Equal(got, want) {
		t.Errorf("found with a package update: %q, want %q", got, want)
	}
	write(t, filepath.Join(bin, "rpm"), "#!/bin/sh\nexit 3\n", 0o755)
	if found, err := h.Compare(t.Context(), file); err == nil {
		t.Errorf("no error although rpm fails; found %q", found)
	}
}
