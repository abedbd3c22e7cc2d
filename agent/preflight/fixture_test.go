package preflight

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// gone, as the content of a file, removes the file.
const gone = "\x00gone"

// healthy are the files of a computer that has everything it needs.
var healthy = map[string]string{
	"/etc/os-release":               "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\n",
	"/etc/machine-id":               "0123456789abcdef0123456789abcdef\n",
	"/etc/fstab":                    "# the disks\n/dev/vda1 / ext4 defaults 0 1\n",
	"/proc/meminfo":                 "MemTotal:        8000000 kB\nMemFree: 1 kB\n",
	"/proc/swaps":                   "Filename\tType\tSize\tUsed\tPriority\n",
	"/proc/filesystems":             "nodev\tproc\n\text4\nnodev\toverlay\n",
	"/proc/sys/kernel/hostname":     "rack1-07\n",
	"/proc/sys/net/ipv4/ip_forward": "1\n",
	"/proc/net/route": "Iface\tDestination\n" +
		"ens3\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n",
	"/proc/net/tcp":                             listening("0016", "4711"),
	"/proc/1/comm":                              "systemd\n",
	"/sys/fs/cgroup/cgroup.controllers":         "cpuset cpu io memory hugetlb pids rdma\n",
	"/sys/module/br_netfilter/x":                "",
	"/sys/module/nf_conntrack/x":                "",
	"/sys/module/nf_tables/x":                   "",
	"/lib/modules/6.12.0-amd64/modules.builtin": "kernel/drivers/net/vxlan/vxlan.ko\n",
	"/lib/modules/6.12.0-amd64/modules.dep": "kernel/net/bridge/br_netfilter.ko.xz: kernel/net/bridge/bridge.ko.xz\n" +
		"kernel/net/netfilter/nf_conntrack.ko.xz:\nkernel/net/netfilter/nf_tables.ko.xz:\n",
	"/proc/sys/net/bridge/bridge-nf-call-iptables":  "1\n",
	"/proc/sys/net/bridge/bridge-nf-call-ip6tables": "1\n",
	"/run/systemd/system/x":                         "",
	"/run/containerd/containerd.sock":               "",
	"/usr/bin/kubeadm":                              "#!",
	"/usr/bin/kubelet":                              "#!",
	"/usr/bin/mount":                                "#!",
	"/usr/sbin/losetup":                             "#!",
	"/usr/bin/cp":                                   "#!",
	"/usr/bin/timedatectl":                          "#!",
}

// computer returns a computer with the healthy files, some of them changed.
func computer(t *testing.T, changed map[string]string) *System {
	t.Helper()
	root := t.TempDir()
	write := func(path, content string) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, path), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for path, content := range healthy {
		if _, other := changed[path]; !other {
			write(path, content)
		}
	}
	for path, content := range changed {
		if target, link := strings.CutPrefix(content, "-> "); link {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(target, filepath.Join(root, path)); err != nil {
				t.Fatal(err)
			}
		} else if content != gone {
			write(path, content)
		}
	}
	return &System{
		Root: root, Architecture: "amd64", Processors: 4, Release: "6.12.0-amd64",
		Synchronized: func() (bool, error) { return true, nil },
		Free:         func(string) (uint64, error) { return 50 << 30, nil },
		Chains:       func() ([]Chain, error) { return nil, nil },
	}
}
