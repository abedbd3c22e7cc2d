package clean

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/agent/apply"
	"github.com/capstan-dev/capstan/agent/cloudconfig"
	"github.com/capstan-dev/capstan/agent/command"
	"github.com/capstan-dev/capstan/agent/internal/podroute"
	"github.com/capstan-dev/capstan/agent/internal/testhost"
	"github.com/capstan-dev/capstan/agent/journal"
)

func TestRulesOfKubernetesAreFound(t *testing.T) {
	rules := "*filter\n:INPUT ACCEPT [0:0]\n:KUBE-SERVICES - [0:0]\n:DOCKER - [0:0]\n-A INPUT -j KUBE-SERVICES\n" +
		"-A INPUT -p tcp --dport 22 -j ACCEPT\n" +
		"-A FORWARD -m comment --comment \"about kubernetes\" -j DOCKER\n-A CNI-FORWARD -j ACCEPT\nCOMMIT\n"
	want := "*filter\n:INPUT ACCEPT [0:0]\n:DOCKER - [0:0]\n-A INPUT -p tcp --dport 22 -j ACCEPT\n" +
		"-A FORWARD -m comment --comment \"about kubernetes\" -j DOCKER\nCOMMIT\n"
	if got := withoutChains(rules); got != want {
		t.Errorf("got %q", got)
	}
	if withoutChains(want) != want {
		t.Error("other programs' rules are taken for rules of Kubernetes")
	}
}

func TestListeningPort(t *testing.T) {
	cases := map[string]struct {
		line string
		port int
		ok   bool
	}{
		"a socket that listens": {
			"   0: 00000000:192B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1", 6443, true,
		},
		"a listening socket with an IPv6 address": {"   0: 00000000000000000000000000000000:280A 0:0 0A 0", 10250, true},
		"a connection":    {"   0: 0100007F:192B 0100007F:C350 01 0", 0, false},
		"the heading":     {"  sl  local_address rem_address   st tx_queue", 0, false},
		"an empty line":   {"", 0, false},
		"an invalid port": {"   0: 00000000:ZZ 00000000:0000 0A 0", 0, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if port, ok := listeningPort(c.line); ok != c.ok || ok && port != c.port {
				t.Errorf("got %d, %t", port, ok)
			}
		})
	}
}

func TestLeftoversFitIntoAReport(t *testing.T) {
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf("process %d %s", i, strings.Repeat("é", 400)))
	}
	got := bound(many)
	if len(got) != 64 || got[63] != "and 37 more" {
		t.Errorf("got %d leftovers, the last is %q", len(got), got[len(got)-1])
	}
	for _, l := range got {
		if len(l) > 512 || strings.ToValidUTF8(l, "") != l {
			t.Errorf("%q is too long or broken", l)
		}
	}
	if len(bound(nil)) != 0 {
		t.Error("an empty list became leftovers")
	}
}

func newCleaner(t *testing.T) *Cleaner {
	t.Helper()
	j, err := journal.Open("/var/lib/capstan/journal", "capstan://default/h1/0a1b2c3d")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	log, err := command.OpenLog(LogPath, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	return &Cleaner{Journal: j, Log: log, BundlesDir: "/opt/capstan/bundles"}
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// routeTo creates a route that is marked with a protocol.
func routeTo(t *testing.T, to string, protocol netlink.RouteProtocol) {
	t.Helper()
	link, err := netlink.LinkByName("eth0")
	if err != nil {
		t.Fatal(err)
	}
	_, network, err := net.ParseCIDR(to)
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.RouteAdd(&netlink.Route{
		LinkIndex: link.Attrs().Index, Dst: network, Gw: net.IPv4(10, 99, 0, 1), Protocol: protocol,
	}); err != nil {
		t.Fatal(err)
	}
}

// ruleFrom creates a routing rule that is marked with a protocol.
func ruleFrom(t *testing.T, from string, protocol uint8) {
	t.Helper()
	_, network, err := net.ParseCIDR(from)
	if err != nil {
		t.Fatal(err)
	}
	const table = 1610
	r := netlink.NewRule()
	r.Family, r.Src, r.Table, r.Priority, r.Protocol = unix.AF_INET, network, table, table, protocol
	if err := netlink.RuleAdd(r); err != nil {
		t.Fatal(err)
	}
}

func hasRoute(t *testing.T, to string) bool {
	t.Helper()
	all, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(all, func(r netlink.Route) bool { return r.Dst != nil && r.Dst.String() == to })
}

// The proof finds each kind of leftover, and cleaning removes it.
func TestTheProofFindsWhatIsLeft(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		testhost.Executable(t, "/usr/local/bin/systemctl", "exit 5\n") // no such units
		c := newCleaner(t)
		if left, err := c.Leftovers(t.Context()); err != nil || len(left) > 0 {
			t.Fatalf("leftovers on a clean host: %v, %v", left, err)
		}
		touch(t, "/var/lib/etcd/member")
		touch(t, "/etc/cni/net.d/x.conf")
		if err := os.MkdirAll("/var/lib/kubelet/pods/a", 0o755); err != nil {
			t.Fatal(err)
		}
		for _, point := range []string{"/var/lib/kubelet/pods/a", "/var/lib/etcd"} { // the second one is the host's own disk
			if err := unix.Mount("x", point, "tmpfs", 0, ""); err != nil {
				t.Fatal(err)
			}
		}
		touch(t, "/var/lib/etcd/member")
		const own = "podium" // the host's own
		for _, name := range []string{"cni0", "podnet0", "pod-0123456789a", own} {
			if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}); err != nil {
				t.Fatal(err)
			}
		}
		ruleFrom(t, "10.244.0.0/24", podroute.Protocol)
		ruleFrom(t, "198.51.100.0/24", unix.RTPROT_STATIC) // the host's own
		routeTo(t, "10.244.1.0/24", podroute.Protocol)
		routeTo(t, "203.0.113.0/24", unix.RTPROT_STATIC) // the host's own
		if err := os.MkdirAll("/usr/local/bin", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/opt/capstan/bundles/v1.0.0/capstan-kube", "/usr/local/bin/kubelet"); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", "127.0.0.1:6443")
		if err != nil {
			t.Fatal(err)
		}
		want := []string{
			"interface cni0", "interface pod-0123456789a", "interface podnet0",
			"mount /var/lib/kubelet/pods/a", "path /etc/cni/net.d", "path /usr/local/bin/kubelet",
			"path /var/lib/etcd", "path /var/lib/kubelet",
			"route to 10.244.1.0/24, of the pod network",
			"routing rule for packets from 10.244.0.0/24, of the pod network", "socket tcp 6443, the port of kube-apiserver",
		}
		left, err := c.Leftovers(t.Context())
		slices.Sort(left)
		if err != nil || !slices.Equal(left, want) {
			t.Errorf("found %q, %v\nwant %q", left, err, want)
		}
		if err := c.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if done, left := c.Journal.Cleaned(); !done ||
			!slices.Equal(left, []string{"socket tcp 6443, the port of kube-apiserver"}) {
			t.Errorf("leftovers %v, want only the socket, which this test holds", left)
		}
		l.Close()
		if err := c.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if done, left := c.Journal.Cleaned(); !done || len(left) > 0 {
			t.Errorf("leftovers %v, want none", left)
		}
		if !hasRoute(t, "203.0.113.0/24") {
			t.Error("a route of the host itself was removed")
		}
		if _, err := netlink.LinkByName(own); err != nil {
			t.Errorf("a link of the host itself was removed: %v", err)
		}
		if rules, err := netlink.RuleList(netlink.FAMILY_V4); err != nil || !slices.ContainsFunc(rules,
			func(r netlink.Rule) bool { return r.Src != nil && r.Src.String() == "198.51.100.0/24" }) {
			t.Errorf("a rule of the host itself was removed: %v, %v", rules, err)
		}
		if !mountPoint("/var/lib/etcd") {
			t.Error("the host's own disk was unmounted")
		}
		if _, err := os.Stat(LogPath); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the log was kept although the host is clean: %v", err)
		}
	})
}

// Cleaning keeps the copy of a file until the file is restored, because something may prevent that at first.
func TestAFileThatCantBePutBackIsLeft(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		testhost.Executable(t, "/usr/local/bin/systemctl", "exit 5\n")
		c := newCleaner(t)
		if err := os.WriteFile("/etc/motd", []byte("before"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := c.undo().Keep("/etc/motd"); err != nil {
			t.Fatal(err)
		}
		touch(t, "/run/other")
		if err := os.WriteFile("/etc/motd", []byte("after"), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{"snapshot/etc/kubernetes/pki/ca.key", "snapshot.part/x", "environment",
			"environment.new"} {
			touch(t, filepath.Join(c.Journal.Dir(), secret))
		}
		if err := unix.Mount("/run/other", "/etc/motd", "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("", "/etc/motd", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			t.Fatal(err)
		}
		if err := c.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if done, left := c.Journal.Cleaned(); !done ||
			!slices.Equal(left, []string{"path /etc/motd, which is not as it was before"}) {
			t.Errorf("leftovers %q, want only the file", left)
		}
		if err := unix.Unmount("/etc/motd", 0); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second round is after a crash before the result was written
			if err := c.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if done, left := c.Journal.Cleaned(); !done || len(left) > 0 {
				t.Errorf("leftovers %q", left)
			}
			if data, err := os.ReadFile("/etc/motd"); err != nil || string(data) != "before" {
				t.Errorf("the file is %q, %v", data, err)
			}
			if beside, err := os.ReadDir(c.Journal.Dir()); err != nil || len(beside) != 1 {
				t.Errorf("want only the records in the journal's directory: %v, %v", beside, err)
			}
		}
	})
}

// The kernel lists mounts without a trailing slash, but a mount point in the bootstrap data may have one.
func TestAMountThatWasNotedWithASlashIsFound(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		c := newCleaner(t)
		if err := errors.Join(c.Journal.Note("mount", "/srv/etcd/"), os.MkdirAll("/srv/etcd", 0o755),
			unix.Mount("x", "/srv/etcd", "tmpfs", 0, "")); err != nil {
			t.Fatal(err)
		}
		if left, err := c.mounts(t.Context()); err != nil || !slices.Equal(left, []string{"mount /srv/etcd"}) {
			t.Errorf("found %q, %v", left, err)
		}
		if err := c.unmount(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left, err := c.mounts(t.Context()); err != nil || len(left) > 0 {
			t.Errorf("mounts left: %q, %v", left, err)
		}
	})
}

// A reboot may give the name of the machine's disk to one of the host's own disks.
func TestOnlyTheMachinesDiskIsWiped(t *testing.T) {
	testhost.Needs(t, "mkfs.ext4", "blkid", "wipefs")
	testhost.Run(t, func(t *testing.T) {
		testhost.Executable(t, "/usr/local/bin/systemctl", "exit 5\n")
		c := newCleaner(t)
		for _, disk := range []string{"/srv/machine", "/srv/host"} {
			touch(t, disk)
			if err := os.Truncate(disk, 16<<20); err != nil {
				t.Fatal(err)
			}
		}
		host := &apply.Host{Log: c.Log, Notes: c.Journal, Undo: c.undo()}
		if err := host.Filesystems(t.Context(),
			[]cloudconfig.Filesystem{{Device: "/srv/machine", Type: "ext4"}}); err != nil {
			t.Fatal(err)
		}
		if err := (command.Command{Args: []string{"mkfs.ext4", "-q", "-F", "/srv/host"}}).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Rename("/srv/machine", "/srv/elsewhere"),
			os.Rename("/srv/host", "/srv/machine")); err != nil {
			t.Fatal(err)
		}
		if err := c.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, left := c.Journal.Cleaned()
		if len(left) != 1 || !strings.HasPrefix(left[0],
			"data on /srv/machine, which may not be the machine's disk") {
			t.Errorf("leftovers %q", left)
		}
		if text, _ := c.output(t.Context(), "wipefs", "--noheadings", "/srv/machine"); !strings.Contains(text, "ext4") {
			t.Errorf("the host's disk was wiped: %q", text)
		}
		if err := os.Rename("/srv/elsewhere", "/srv/machine"); err != nil {
			t.Fatal(err)
		}
		if err := c.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if done, left := c.Journal.Cleaned(); !done || len(left) > 0 {
			t.Errorf("leftovers %q", left)
		}
	})
}

// Somebody's data may be mounted below a directory that cleaning deletes.
func TestNothingIsDeletedThroughAMount(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		for _, dir := range []string{"/srv/data", "/etc/cni/net.d/deep/mount"} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		touch(t, "/srv/data/precious")
		if err := unix.Mount("/srv/data", "/etc/cni/net.d/deep/mount", "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		if err := deleteDirectory("/etc/cni/net.d"); err == nil ||
			!strings.Contains(err.Error(), "mounted at /etc/cni/net.d/deep/mount") {
			t.Errorf("got %v", err)
		}
		if _, err := os.Stat("/srv/data/precious"); err != nil {
			t.Error("data was deleted through a mount")
		}
		if err := os.Symlink("/srv/data", "/run/kubeadm"); err != nil {
			t.Fatal(err)
		}
		if err := deleteDirectory("/run/kubeadm"); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat("/srv/data/precious"); err != nil {
			t.Error("data was deleted through a link")
		}
	})
}
