//go:build linux

package dock_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/dock"
)

// handleScript tries open_by_handle_at on a mount of the host. With CAP_DAC_READ_SEARCH that call reaches every file of
// the disk.
const handleScript = `python3 - <<'P'
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
class H(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("data", ctypes.c_ubyte * 128)]
fd = os.open("/etc", os.O_RDONLY)
h = H(8, 1)
ctypes.memmove(h.data, struct.pack("<II", 2, 0), 8)   # inode 2 is the root of ext4
got = libc.open_by_handle_at(fd, ctypes.byref(h), os.O_RDONLY | os.O_DIRECTORY)
if got < 0:
    raise SystemExit(os.strerror(ctypes.get_errno()))
print(os.listdir(got))
P`

// scripts reads a file of lines "NAME: SCRIPT".
func scripts(t *testing.T, file string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for line := range strings.Lines(string(data)) {
		name, script, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if strings.HasPrefix(line, "#") {
			continue
		}
		if !ok || all[name] != "" {
			t.Fatalf("%s: this line has no name, or one that another line has: %s", file, line)
		}
		all[name] = script
	}
	return all
}

// TestRootInAHostIsNotRootOfTheMachine checks that attacks by root in a host fail, whoever runs the dock, while root's
// legitimate operations work.
func TestRootInAHostIsNotRootOfTheMachine(t *testing.T) {
	home := t.TempDir()
	c := start(t, home)
	h := ensure(t, c, dock.HostSpec{Name: "host-1"})
	corePattern, _ := os.ReadFile("/proc/sys/kernel/core_pattern")

	for name, script := range scripts(t, "attempts.txt") {
		t.Run(name, func(t *testing.T) {
			if out, code := in(t, h, script); code == 0 {
				t.Errorf("%s got through:\n%s", script, out)
			}
		})
	}
	t.Run("open_by_handle_at", func(t *testing.T) {
		if out, code := in(t, h, handleScript); code == 0 {
			t.Errorf("open_by_handle_at reaches the machine's files: %s", out)
		}
	})
	if now, _ := os.ReadFile("/proc/sys/kernel/core_pattern"); string(now) != string(corePattern) {
		t.Errorf("core_pattern is %q, was %q", now, corePattern)
	}

	for name, script := range scripts(t, "controls.txt") {
		t.Run("control: "+name, func(t *testing.T) {
			if out, code := in(t, h, script); code != 0 {
				t.Errorf("%s fails:\n%s", script, out)
			}
		})
	}
	if os.Geteuid() == 0 { // an ordinary user may have only one id
		must(t, h, `touch /var/lib/a && chown 1000:1000 /var/lib/a && test "$(stat -c %u /var/lib/a)" = 1000`)
	}
}

// TestHostsHaveTheirIDs checks the hosts' ids. If root runs the dock, no two hosts share an id. An ordinary user has
// either one id for all hosts, or subordinate ids that all hosts share. Files keep their owners across a restart.
func TestHostsHaveTheirIDs(t *testing.T) {
	c := start(t, t.TempDir())
	seen := map[string]string{}
	for _, name := range []string{"host-1", "host-2", "host-3"} {
		h := ensure(t, c, dock.HostSpec{Name: name})
		mapping, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(h.PID), "uid_map"))
		fields := strings.Fields(string(mapping))
		if os.Geteuid() != 0 && h.IDs == 65536 {
			fields = append(fields[:2], "1") // TestSubordinateIDs checks the other ids
		}
		if err != nil || len(fields) != 3 || fields[0] != "0" {
			t.Fatalf("the ids of %s are %q, %v", name, mapping, err)
		}
		first, count := fields[1], fields[2]
		switch {
		case os.Geteuid() != 0 && (first != strconv.Itoa(os.Geteuid()) || count != "1"):
			t.Errorf("%s has %s ids from %s, want only the id of the user", name, count, first)
		case os.Geteuid() == 0 && (first == "0" || count != "65536"):
			t.Errorf("%s has %s ids from %s, want 65536 from another id than 0", name, count, first)
		case os.Geteuid() == 0 && seen[first] != "":
			t.Errorf("%s and %s have the same ids from %s", name, seen[first], first)
		}
		seen[first] = name
		must(t, h, `echo mine > /var/lib/mine && chmod 600 /var/lib/mine`)
	}
	if err := c.RebootHost(short(t), "host-2"); err != nil {
		t.Fatal(err)
	}
	if got := must(t, hostOf(t, c, "host-2"), `cat /var/lib/mine; stat -c ' %u' /var/lib/mine`); got != "mine\n 0\n" {
		t.Errorf("after a reboot the host's file is %q", got)
	}
}
