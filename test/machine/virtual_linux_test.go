package machine

import (
	"os"
	"strings"
	"testing"
	"time"
)

// TestVirtualMachine boots a virtual machine twice, and checks that it works as a machine and that nothing of it is
// left.
func TestVirtualMachine(t *testing.T) {
	if os.Getenv(WantedVirtual) == "" {
		t.Skip("starts a virtual machine: make test-vm")
	}
	ctx := t.Context()
	root, err := VirtualRoot()
	if err != nil {
		t.Fatal(err)
	}
	lan, err := NewLAN("192.0.2.1", 24, "192.0.2.254")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := lan.Remove(); err != nil {
			t.Error(err)
		}
	}()
	dir, err := os.MkdirTemp("", "machine-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	began := time.Now()
	m, err := StartVirtual(ctx, lan, root, dir, "rack1-01", "192.0.2.11")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Remove(); err != nil {
			t.Error(err)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			t.Errorf("files are left: %v %v", entries, err)
		}
	}()
	t.Logf("booted in %s", time.Since(began).Round(time.Millisecond))
	for line, want := range map[string]string{
		"cat /proc/1/comm":                               "systemd\n",
		"hostname":                                       "rack1-01\n",
		"stat -f -c %T /sys/fs/cgroup":                   "cgroup2fs\n",
		"systemd-detect-virt":                            "qemu\n",
		"command -v containerd || echo none":             "none\n",
		"ping -c1 -W5 192.0.2.1 > /dev/null && echo yes": "yes\n",
		"modprobe br_netfilter && sysctl -n net.bridge.bridge-nf-call-iptables": "1\n",
	} {
		if got, err := m.Run(ctx, line+" 2>/dev/null"); err != nil || got != want {
			t.Errorf("%s: %q, %v", line, got, err)
		}
	}
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := m.Run(ctx, "uname -r"); err != nil || got == string(release) || !strings.Contains(got, "cloud") {
		t.Errorf("the machine's kernel is %q, %v, and this computer's is %q", got, err, release)
	}
	if err := m.Write(ctx, "/root/kept", strings.NewReader("yes\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Run(ctx, "sync"); err != nil {
		t.Fatal(err)
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
