package baseline

import (
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/agent/internal/testhost"
)

const path = "/var/lib/capstan/baseline.gz"

func take(t *testing.T, h Host) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	digest, err := h.Take(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

func whole() Host { return Host{Root: "/", Own: []string{"/var/lib/capstan"}} }

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := unix.Chmod(path, uint32(mode)); err != nil { // os.Chmod has another bit for setuid
		t.Fatal(err)
	}
}

func add(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// starts starts a program that runs until the test ends.
func starts(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
}

// leftovers are things that a machine can leave, each with the report about it.
var leftovers = map[string]struct {
	leave func(t *testing.T)
	want  string
}{
	"a process": {func(t *testing.T) { starts(t, "sleep", "3600") }, "process /usr/bin/sleep of uid 0 "},
	"a process in its own PID namespace": {func(t *testing.T) {
		starts(t, "unshare", "--fork", "--pid", "sleep", "3601")
	}, `"sleep 3601"`},
	"one more process of a program that ran before": {func(t *testing.T) {
		starts(t, "tail", "-f", "/dev/null")
	}, `"tail -f /dev/null"`},
	"a process that listens": {func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:4444")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
	}, "socket tcp 4444 of uid 0"},
	"a user with uid 0": {func(t *testing.T) {
		add(t, "/etc/passwd", "toor:x:0:0::/root:/bin/sh\n")
	}, "path /etc/passwd, which is not as it was before"},
	"an SSH key of root": {func(t *testing.T) {
		write(t, "/root/.ssh/authorized_keys", "ssh-ed25519 AAAA me\n", 0o600)
	}, "path /root/.ssh/authorized_keys, which was not there before"},
	"a suid shell": {func(t *testing.T) {
		write(t, "/var/tmp/sh", "#!/bin/sh\n", 0o4755)
	}, "path /var/tmp/sh, a program with rights of its own"},
	"a program with capabilities": {func(t *testing.T) {
		write(t, "/home/me/sh", "#!/bin/sh\n", 0o755)
		// cap_setuid, effective and permitted, version 2.
		value := []byte{1, 0, 0, 2, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
		if err := unix.Setxattr("/home/me/sh", "security.capability", value, 0); err != nil {
			t.Fatal(err)
		}
	}, "path /home/me/sh, a program with rights of its own"},
	"ld.so.preload": {func(t *testing.T) {
		write(t, "/etc/ld.so.preload", "/tmp/x.so\n", 0o644)
	}, "path /etc/ld.so.preload, which was not there before"},
	"an enabled unit": {func(t *testing.T) {
		write(t, "/etc/systemd/system/evil.service", "[Service]\nExecStart=/bin/true\n", 0o644)
		wants := "/etc/systemd/system/multi-user.target.wants"
		if err := os.Symlink("../evil.service", wants+"/evil.service"); err != nil {
			t.Fatal(err)
		}
	}, "path /etc/systemd/system/multi-user.target.wants/evil.service, which was not there before"},
	"a directory with files": {func(t *testing.T) {
		write(t, "/opt/evil/bin/evil", "#!/bin/sh\n", 0o755)
	}, "path /opt/evil, which was not there before"},
	"a job of cron": {func(t *testing.T) {
		write(t, "/var/spool/cron/crontabs/root", "* * * * * /tmp/x\n", 0o600)
	}, "path /var/spool/cron/crontabs/root, which was not there before"},
	"a tmpfs": {func(t *testing.T) {
		if err := os.MkdirAll("/mnt/x", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("none", "/mnt/x", "tmpfs", 0, ""); err != nil {
			t.Fatal(err)
		}
	}, "mount /mnt/x (tmpfs of none)"},
	"an address": {func(t *testing.T) {
		addTo(t, "eth0", "192.0.2.9/32")
	}, "address 192.0.2.9/32 on eth0"},
	"a route": {func(t *testing.T) {
		link, err := netlink.LinkByName("eth0")
		if err == nil {
			_, to, _ := net.ParseCIDR("203.0.113.0/24")
			err = netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: to, Gw: net.IPv4(10, 99, 0, 1)})
		}
		if err != nil {
			t.Fatal(err)
		}
	}, "route to 203.0.113.0/24 by 10.99.0.1 on eth0"},
	"an interface": {func(t *testing.T) {
		if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "evil0"}}); err != nil {
			t.Fatal(err)
		}
	}, "interface evil0 (bridge)"},
	"a rule of the packet filter": {func(t *testing.T) { filter(t) }, "nftables table inet evil with other rules"},
	"another name server": {func(t *testing.T) {
		write(t, "/etc/resolv.conf", "nameserver 192.0.2.66\n", 0o644)
	}, "path /etc/resolv.conf, which was not there before"},
	"a changed cache of the dynamic loader": {func(t *testing.T) {
		add(t, "/etc/ld.so.cache", "x")
	}, "path /etc/ld.so.cache, which is not as it was before"},
	"a configuration file that is gone": {func(t *testing.T) {
		if err := os.Remove("/etc/login.defs"); err != nil {
			t.Fatal(err)
		}
	}, "path /etc/login.defs, which is gone"},
	"a file that everybody may write": {func(t *testing.T) {
		if err := os.Chmod("/etc/fstab", 0o666); err != nil {
			t.Fatal(err)
		}
	}, "path /etc/fstab, whose mode was 0644 and is 0666"},
	"a file that another user owns": {func(t *testing.T) {
		if err := os.Chown("/etc/hosts", 0, 65534); err != nil {
			t.Fatal(err)
		}
	}, "path /etc/hosts, whose owner was 0:0 and is 0:65534"},
	"a program with its old size and time": {func(t *testing.T) {
		before, err := os.Stat("/opt/program")
		if err != nil {
			t.Fatal(err)
		}
		write(t, "/opt/program", "#!/bin/no\n", 0o755)
		if err := os.Chtimes("/opt/program", before.ModTime(), before.ModTime()); err != nil {
			t.Fatal(err)
		}
	}, "path /opt/program, which is not as it was before"},
}

func addTo(t *testing.T, name, address string) {
	t.Helper()
	link, err := netlink.LinkByName(name)
	if err != nil {
		t.Fatal(err)
	}
	a, err := netlink.ParseAddr(address)
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.AddrAdd(link, a); err != nil {
		t.Fatal(err)
	}
}

// filter creates a table with a rule.
func filter(t *testing.T) {
	t.Helper()
	c, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	table := c.AddTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: "evil"})
	chain := c.AddChain(&nftables.Chain{
		Name: "in", Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookInput,
		Priority: nftables.ChainPriorityFilter,
	})
	c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
		&expr.Counter{}, &expr.Verdict{Kind: expr.VerdictAccept},
	}})
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
}

// TestWhatIsLeftIsFound leaves each kind of leftover on a host, one after the other, and expects a report about it.
func TestWhatIsLeftIsFound(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		write(t, "/opt/program", "#!/bin/sh\n", 0o755)
		for _, dir := range []string{
			"/etc/systemd/system/multi-user.target.wants", "/root/.ssh", "/var/spool/cron/crontabs",
		} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		starts(t, "tail", "-f", "/dev/null")
		waitForProgram(t, "tail -f /dev/null")
		h := whole()
		digest := take(t, h)
		if again := take(t, h); again != digest {
			t.Errorf("a second baseline replaced the first")
		}
		if found := compare(t, h); len(found) > 0 {
			t.Fatalf("differences on an unchanged host: %q", found)
		}
		if testhost.OneID() {
			delete(leftovers, "a file that another user owns")
		}
		for _, name := range slices.Sorted(maps.Keys(leftovers)) {
			leftovers[name].leave(t)
		}
		waitForProgram(t, "sleep 3601")
		found := compare(t, h)
		for name, l := range leftovers {
			if !slices.ContainsFunc(found, func(f string) bool { return strings.Contains(f, l.want) }) {
				t.Errorf("%s is not found: want %q", name, l.want)
			}
		}
		if n := strings.Count(strings.Join(found, "\n"), "/opt/evil"); n != 1 {
			t.Errorf("the new directory /opt/evil is reported %d times", n)
		}
		for _, f := range found {
			t.Log(f)
		}
	})
}

// waitForProgram waits until a started program has been executed: until then its process still runs the program that
// forked it.
func waitForProgram(t *testing.T, args string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		all, err := processes()
		if err != nil {
			t.Fatal(err)
		}
		for name := range all {
			if strings.Contains(name, `("`+args+`")`) {
				return
			}
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not run: %v", args, all)
		}
	}
}

func compare(t *testing.T, h Host) []string {
	t.Helper()
	found, err := h.Compare(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestWhatALocalHostShares: what the machine mounts into a local host changes independently of the host.
func TestWhatALocalHostShares(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		write(t, "/home/machine/program", "one\n", 0o755)
		write(t, "/home/machine/hosts", "one\n", 0o644)
		write(t, "/etc/shared", "", 0o644)
		if err := os.MkdirAll("/opt/shared", 0o755); err != nil {
			t.Fatal(err)
		}
		for from, to := range map[string]string{"/home/machine": "/opt/shared", "/home/machine/hosts": "/etc/shared"} {
			if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mount("", to, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
				t.Fatal(err)
			}
		}
		h := whole()
		h.Shared = true
		take(t, h)
		write(t, "/home/machine/program", "other\n", 0o755)
		write(t, "/home/machine/hosts", "other\n", 0o644)
		if found := compare(t, h); len(found) > 0 {
			t.Errorf("changes made by the machine are reported: %q", found)
		}
		h.Shared = false
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		take(t, h)
		write(t, "/home/machine/program", "one\n", 0o755)
		if found := compare(t, h); len(found) != 1 || !strings.Contains(found[0], "/opt/shared/program") {
			t.Errorf("on a host that is not local: found %q", found)
		}
	})
}

// TestADamagedBaseline: a baseline that can't be read proves nothing.
func TestADamagedBaseline(t *testing.T) {
	h := Host{Root: t.TempDir()}
	write(t, filepath.Join(h.Root, "etc/hosts"), "one\n", 0o644)
	file := filepath.Join(t.TempDir(), "baseline.gz")
	if _, err := h.Take(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, broken := range map[string][]byte{
		"cut off":        data[:len(data)/2],
		"empty":          {},
		"not a baseline": []byte("hello"),
		"flipped bits":   slices.Concat(data[:len(data)-20], []byte{data[len(data)-20] ^ 0xff}, data[len(data)-19:]),
	} {
		if err := os.WriteFile(file, broken, 0o600); err != nil {
			t.Fatal(err)
		}
		if found, err := h.Compare(t.Context(), file); err == nil {
			t.Errorf("%s: no error, and %q", name, found)
		}
	}
	if _, err := h.Compare(t.Context(), file+".gone"); err == nil {
		t.Error("a comparison with a missing baseline succeeded")
	}
}

func FuzzLine(f *testing.F) {
	f.Add(`"/etc/passwd" 100644 0 0 12 34 56 abc -`)
	f.Add(`"/a\nb" 120777 1 2 3 4 5 - 0100`)
	f.Fuzz(func(t *testing.T, line string) {
		e, err := parse(line)
		if err != nil {
			return
		}
		again, err := parse(strings.TrimSuffix(string(e.appendTo(nil)), "\n"))
		if err != nil || again != e {
			t.Errorf("%+v became %+v, %v", e, again, err)
		}
	})
}

// BenchmarkLook takes a baseline of this machine, and compares the machine with it.
func BenchmarkLook(b *testing.B) {
	h := Host{Root: "/", Own: []string{os.TempDir()}}
	for b.Loop() {
		file := filepath.Join(b.TempDir(), "baseline.gz")
		if _, err := h.Take(b.Context(), file); err != nil {
			b.Fatal(err)
		}
		if _, err := h.Compare(b.Context(), file); err != nil {
			b.Fatal(err)
		}
		info, err := os.Stat(file)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(info.Size())/1e6, "MB-file")
	}
}
