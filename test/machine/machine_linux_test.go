package machine

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

func TestParseHierarchies(t *testing.T) {
	text := "24 1 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n" +
		"25 24 0:23 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu\n" +
		"26 24 0:24 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n" +
		"27 24 0:25 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n28 1 0:26 / /proc rw - proc proc rw\n"
	want := []hierarchy{
		{"/sys/fs/cgroup/cpu", "cgroup", "cpu"},
		{"/sys/fs/cgroup/systemd", "cgroup", "none,name=systemd"},
		{"/sys/fs/cgroup/unified", "cgroup2", ""},
	}
	got := parseHierarchies(text)
	if len(got) != len(want) {
		t.Fatalf("got the hierarchies %v, want three", got)
	}
	for n := range want {
		if got[n] != want[n] {
			t.Errorf("got %v, want %v", got[n], want[n])
		}
	}
	if kubeletDefaults(want) == "" || kubeletDefaults(want[2:]) != "" {
		t.Error("want a setting for kubelets with cgroups of version 1, and none for other kubelets")
	}
}

// TestMachine boots a machine twice, and checks that it works as a machine and that nothing of it is left.
func TestMachine(t *testing.T) {
	if os.Getenv(Wanted) == "" {
		t.Skip("starts machines: make test-machines")
	}
	ctx := t.Context()
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	lan, err := NewLAN("192.0.2.1", 24, "192.0.2.254")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "machine-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	began := time.Now()
	m, err := Start(ctx, lan, root, dir, "rack1-01", "192.0.2.11")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Remove(); err != nil {
			t.Error(err)
		}
		groups, err := hierarchies()
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range groups {
			entries, err := os.ReadDir(h.path)
			if err != nil {
				t.Fatal(err)
			}
			for _, entry := range entries {
				if strings.HasPrefix(entry.Name(), "machine-") {
					t.Errorf("a cgroup is left: %s/%s", h.path, entry.Name())
				}
			}
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			t.Errorf("files are left: %v %v", entries, err)
		}
	}()
	t.Logf("booted in %s", time.Since(began).Round(time.Millisecond))
	for line, want := range map[string]string{
		"cat /proc/1/comm":                               "systemd\n",
		"hostname":                                       "rack1-01\n",
		"systemctl is-active dbus":                       "active\n",
		"command -v containerd || echo none":             "none\n",
		"ip -4 -o addr show eth0 | grep -c 192.0.2.":     "1\n",
		"ping -c1 -W5 192.0.2.1 > /dev/null && echo yes": "yes\n",
		"sysctl -n net.ipv4.ip_forward=1":                "1\n",
		"for d in /sys/fs/cgroup/*; do mkdir $d/probe || exit 1; done; echo yes":         "yes\n",
		"echo 1 > /proc/sys/vm/overcommit_memory; echo yes > /root/kept; cat /root/kept": "yes\n",
	} {
		if got, err := m.Run(ctx, line+" 2>/dev/null"); err != nil || got != want {
			t.Errorf("%s: %q, %v", line, got, err)
		}
	}
	before, err := os.ReadFile("/proc/sys/vm/overcommit_memory")
	if err != nil || string(before) == "1\n" {
		t.Errorf("the machine has changed this computer: overcommit_memory is %s, %v", before, err)
	}
	if err := m.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := m.Boot(ctx); err != nil {
		t.Fatal(err)
	}
	if kept, err := m.Run(ctx, "cat /root/kept"); err != nil || kept != "yes\n" {
		t.Errorf("after the second boot, the kept file contains %q, error %v", kept, err)
	}
}
