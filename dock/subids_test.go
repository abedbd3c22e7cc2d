//go:build linux

package dock_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/dock"
)

// asNobody reruns a test of this binary as user nobody with subordinate ids. The files of /etc assign these ids only in
// that test's mount namespace.
const asNobody = `set -e
mount --bind "$1" /etc/subuid
mount --bind "$1" /etc/subgid
exec setpriv --reuid 65534 --regid 65534 --clear-groups "$2" -test.run "^$3\$" -test.v
`

// TestSubordinateIDs checks that an ordinary user with newuidmap and lines in /etc/subuid and /etc/subgid gets 65,536
// ids for its hosts, that programs in hosts can use them, and that files keep their owners.
func TestSubordinateIDs(t *testing.T) {
	if os.Geteuid() == 0 {
		runAsNobody(t)
		return
	}
	home := t.TempDir()
	c := start(t, home)
	h := ensure(t, c, dock.HostSpec{Name: "host-1"})
	if h.IDs != 65536 {
		t.Skip("this user has no subordinate ids:", logOf(home))
	}
	mapping, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(h.PID), "uid_map"))
	if err != nil {
		t.Fatal(err)
	}
	// Root of the host is the user itself, as it is on a host with only one id.
	own := strconv.Itoa(os.Geteuid())
	if f := strings.Fields(string(mapping)); len(f) != 6 || f[1] != own || f[5] != "65535" {
		t.Errorf("the host has the ids %q", mapping)
	}
	must(t, h, `touch /var/lib/a && chown 1000:1001 /var/lib/a`)
	must(t, h, `test "$(setpriv --reuid 1000 --regid 1001 --groups 7,8 id -G)" = "1001 7 8"`)
	if _, code := in(t, h, `setpriv --reuid 1000 --regid 1001 --clear-groups touch /var/lib/b`); code == 0 {
		t.Error("another user of the host can write where only root may")
	}
	if _, code := in(t, h, `chown 70000:70000 /var/lib/a`); code == 0 {
		t.Error("the host has more ids than it should")
	}
	if err := c.RebootHost(short(t), "host-1"); err != nil {
		t.Fatal(err)
	}
	if got := must(t, hostOf(t, c, "host-1"), `stat -c %u:%g /var/lib/a`); strings.TrimSpace(got) != "1000:1001" {
		t.Errorf("after a reboot the file belongs to %s", got)
	}
	// The user alone could not remove files of its subordinate ids, but the dock can.
	if err := c.DeleteHost(short(t), "host-1"); err != nil {
		t.Fatal(err)
	}
	if exists(dock.HostDir(home, "host-1")) {
		t.Error("files of the host are left")
	}
}

func runAsNobody(t *testing.T) {
	for _, program := range []string{"newuidmap", "newgidmap", "setpriv", "unshare"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("needs Debian's packages uidmap and util-linux:", err)
		}
	}
	if !exists("/etc/subuid") || !exists("/etc/subgid") {
		t.Skip("there is no /etc/subuid to mount another on")
	}
	dir, err := os.MkdirTemp("", "capstan-nobody-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	data, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	ids, program, temp := filepath.Join(dir, "ids"), filepath.Join(dir, "test"), filepath.Join(dir, "tmp")
	for _, err := range []error{
		os.Chmod(dir, 0o755), os.Mkdir(temp, 0o700), os.Chown(temp, 65534, 65534),
		os.WriteFile(program, data, 0o755), os.WriteFile(ids, []byte("nobody:1700000000:65536\n"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(short(t), "unshare", "--mount", "sh", "-c", asNobody, "sh", ids, program, t.Name())
	cmd.Dir = "/"
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + temp, "TMPDIR=" + temp, "CAPSTAN_DOCK=" + filepath.Join(bin, "capstan-dock"),
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("as nobody: %v\n%s", err, out)
	}
	if strings.Contains(string(out), "--- SKIP") {
		t.Errorf("the user nobody got no subordinate ids, although /etc/subuid names it:\n%s", out)
	}
}
