package preflight

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

type problem struct {
	files map[string]string
	look  func(*System)
	check string
	want  Verdict
	// found and mend are parts of the finding.
	found, mend string
	worker      bool
}

const redHat = "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n"

// problems are what can be wrong with a computer.
var problems = map[string]problem{
	"an ordinary user": {look: func(s *System) { s.User = 1000 }, check: "user", want: Warning,
		found: "uid 1000", mend: "sudo capstan-agent preflight"},
	"another architecture": {look: func(s *System) { s.Architecture = "riscv64" }, check: "architecture",
		want: Missing, found: "riscv64", mend: "# use"},
	"one processor": {look: func(s *System) { s.Processors = 1 }, check: "processors", want: Warning,
		found: "fewer than 2", mend: "--worker"},
	"one processor on a worker": {look: func(s *System) { s.Processors = 1 }, check: "processors", want: OK,
		found: "1", worker: true},
	"little memory for a control plane": {files: map[string]string{"/proc/meminfo": "MemTotal: 1048576 kB\n"},
		check: "memory", want: Warning, found: "1024 MiB", mend: "--worker"},
	"little memory for anything": {files: map[string]string{"/proc/meminfo": "MemTotal: 524288 kB\n"},
		check: "memory", want: Missing, found: "512 MiB", mend: "#"},
	"an unknown amount of memory": {files: map[string]string{"/proc/meminfo": ""}, check: "memory", want: Unknown},
	"a full disk": {look: func(s *System) { s.Free = func(string) (uint64, error) { return 3 << 30, nil } },
		check: "disk", want: Warning, found: "3 GiB", mend: "du "},
	"a disk whose free space is unknown": {
		look:  func(s *System) { s.Free = func(string) (uint64, error) { return 0, errors.New("no") } },
		check: "disk", want: Unknown},
	"a plane that does not answer": {
		look: func(s *System) {
			s.Enrolment = func() (*Enrolment, error) { return nil, errors.New("no route to host") }
		},
		check: "plane", want: Missing, found: "no route to host", mend: "journalctl -u capstan-agent"},
	"an old kernel": {look: func(s *System) { s.Release = "4.19.0" }, check: "kernel", want: Missing,
		found: "5.4 or later", mend: "#"},
	"a kernel whose release has no version": {look: func(s *System) { s.Release = "own" },
		files: map[string]string{"/lib/modules/own/modules.builtin": "vxlan.ko"}, check: "kernel", want: Unknown},
	"cgroups of version 1": {files: map[string]string{"/sys/fs/cgroup/cgroup.controllers": gone},
		check: "cgroups", want: Missing, found: "version 1", mend: "update-grub && reboot"},
	"cgroups of version 1 on Red Hat": {
		files: map[string]string{"/sys/fs/cgroup/cgroup.controllers": gone, "/etc/os-release": redHat},
		check: "cgroups", want: Missing, found: "version 1", mend: "grubby --update-kernel=ALL"},
	"no memory controller": {files: map[string]string{"/sys/fs/cgroup/cgroup.controllers": "cpu cpuset io pids"},
		check: "cgroups", want: Missing, found: "without controller memory", mend: "cgroup_enable=memory"},
	"no controllers": {files: map[string]string{"/sys/fs/cgroup/cgroup.controllers": ""}, check: "cgroups",
		want: Missing, found: "cpu, cpuset, memory, pids", mend: "#"},
	"a module that is not loaded": {files: map[string]string{"/sys/module/br_netfilter/x": gone,
		"/proc/sys/net/bridge/bridge-nf-call-iptables":  gone,
		"/proc/sys/net/bridge/bridge-nf-call-ip6tables": gone},
		check: "modules", want: Missing, found: "not loaded: br_netfilter", mend: "modprobe -a overlay br_netfilter"},
	"a module that is loaded when it is needed": {files: map[string]string{"/sys/module/nf_conntrack/x": gone},
		check: "modules", want: Warning, found: "not loaded: nf_conntrack", mend: "/etc/modules-load.d/capstan.conf"},
	"a packet filter that is built in": {files: map[string]string{"/sys/module/nf_tables/x": gone},
		check: "modules", want: OK, found: "nf_tables"},
	"a kernel without a list of its modules": {
		look:  func(s *System) { s.Release = "6.1.0-own" },
		check: "modules", want: Unknown, found: "does not show vxlan"},
	"a module that the kernel lacks": {files: map[string]string{"/proc/filesystems": "ext4\n"},
		check: "modules", want: Missing, found: "no overlay", mend: "apt-get install -y linux-image-amd64"},
	"a module that the kernel lacks, on Ubuntu": {
		files: map[string]string{"/proc/filesystems": "ext4\n", "/etc/os-release": "ID=ubuntu\nID_LIKE=debian\n"},
		check: "modules", want: Missing, found: "no overlay", mend: "apt-get install -y linux-generic"},
	"no module for other networks": {files: map[string]string{"/lib/modules/6.12.0-amd64/modules.builtin": gone},
		check: "modules", want: Warning, found: "no vxlan (pods on nodes in other networks)", mend: "linux-image-amd64"},
	"no forwarding": {files: map[string]string{"/proc/sys/net/ipv4/ip_forward": "0\n"}, check: "sysctls",
		want: Missing, found: "net.ipv4.ip_forward is 0", mend: "sysctl --system"},
	"no settings of bridges": {files: map[string]string{"/proc/sys/net/bridge/bridge-nf-call-iptables": gone},
		check: "sysctls", want: Missing, found: "bridge-nf-call-iptables is absent", mend: "modprobe br_netfilter"},
	"swap": {files: map[string]string{"/proc/swaps": "Filename Type Size Used\n/dev/vda2 partition 2097148 0 -2\n"},
		check: "swap", want: Missing, found: "/dev/vda2 (2047 MiB)", mend: "swapoff -a && sed"},
	"swap in compressed memory": {
		files: map[string]string{"/proc/swaps": "Filename Type Size Used\n/dev/zram0 partition 4194300 0 100\n"},
		check: "swap", want: Missing, found: "/dev/zram0", mend: "systemctl mask dev-zram0.swap"},
	"swap at the next boot": {files: map[string]string{"/etc/fstab": "UUID=1-2 none swap sw 0 0\n"}, check: "swap",
		want: Warning, found: "UUID=1-2", mend: "/etc/fstab"},
	"a clock that no program keeps": {look: unsynchronized, check: "time", want: Missing, found: "clock",
		mend: "apt-get install -y systemd-timesyncd && timedatectl set-ntp true"},
	"a clock that an installed program could keep": {look: unsynchronized,
		files: map[string]string{"/lib/systemd/systemd-timesyncd": "#!"}, check: "time", want: Missing,
		mend: "timedatectl set-ntp true"},
	"a clock whose state is unknown": {
		look:  func(s *System) { s.Synchronized = func() (bool, error) { return false, errors.New("no") } },
		check: "time", want: Unknown},
	"SELinux that enforces": {files: map[string]string{"/sys/fs/selinux/enforce": "1"}, check: "selinux",
		want: Warning, found: "untested", mend: "setenforce 0"},
	"SELinux that is permissive": {files: map[string]string{"/sys/fs/selinux/enforce": "0"}, check: "selinux",
		want: Warning, found: "permissive: untested"},
	"no systemd": {files: map[string]string{"/run/systemd/system/x": gone}, check: "systemd", want: Missing,
		mend: "--no-service"},
	"no machine id": {files: map[string]string{"/etc/machine-id": "uninitialized\n"}, check: "machine-id",
		want: Missing, mend: "systemd-machine-id-setup"},
	"the name localhost": {files: map[string]string{"/proc/sys/kernel/hostname": "localhost.localdomain"},
		check: "hostname", want: Missing, found: "localhost", mend: "hostnamectl"},
	"a name in capitals": {files: map[string]string{"/proc/sys/kernel/hostname": "Rack1"}, check: "hostname",
		want: Missing, mend: "hostnamectl"},
	"no default route": {files: map[string]string{"/proc/net/route": "Iface\tDestination\n"}, check: "route",
		want: Missing, mend: "ip route add default"},
	"a default route of IPv6 only": {files: map[string]string{"/proc/net/route": "Iface\tDestination\n",
		"/proc/net/ipv6_route": strings.Repeat("0", 32) + " 00 0 00 fe80 00000400 1 0 00000003 ens3\n"},
		check: "route", want: OK, found: "ens3, IPv6 only"},
	"a port in use": {files: map[string]string{"/proc/net/tcp6": listening("280A", "99"),
		"/proc/812/comm": "kubelet\n", "/proc/812/fd/7": "-> socket:[99]", "/proc/812/fd/3": "-> socket:[98]"},
		check: "ports", want: Missing, found: "10250 (kubelet) by kubelet 812", mend: "ss -Hltnp 'sport = :10250'"},
	"a port in use by an unknown process": {files: map[string]string{"/proc/net/tcp": listening("192B", "99")},
		check: "ports", want: Missing, found: "6443 (kube-apiserver)", mend: "sport = :6443"},
	"a control plane's port in use on a worker": {files: map[string]string{"/proc/net/tcp": listening("192B", "99")},
		check: "ports", want: OK, found: "10250", worker: true},
	"a connection from a node's port": {
		files: map[string]string{"/proc/net/tcp": strings.ReplaceAll(listening("280A", "99"), " 0A ", " 01 ")},
		check: "ports", want: OK},
	"firewalld": {files: map[string]string{"/proc/77/comm": "firewalld\n"}, check: "firewall", want: Warning,
		found: "firewalld", mend: "--add-port=10250/tcp --add-port=10256/tcp --add-port=30000-32767/tcp"},
	"ufw": {files: map[string]string{"/etc/ufw/ufw.conf": "# x\nENABLED=yes\nLOGLEVEL=low\n"}, check: "firewall",
		want: Warning, found: "ufw", mend: "port 2379,2380,6443,10250,10256,30000:32767"},
	"ufw that is off": {files: map[string]string{"/etc/ufw/ufw.conf": "ENABLED=no\n"}, check: "firewall", want: OK},
	"a chain that drops": {look: chainsOf(Chain{"inet", "filter", "input", "input", true}), check: "firewall",
		want: Warning, found: "inet filter input", mend: "nft insert rule inet filter input tcp dport '{ 10250, 10256, ",
		worker: true},
	"a chain that drops what is forwarded": {look: chainsOf(Chain{"ip", "filter", "FORWARD", "forward", true}),
		check: "firewall", want: Warning, mend: "nft 'add chain ip filter FORWARD { policy accept; }'"},
	"a chain with a name that is unsafe in a shell": {look: chainsOf(Chain{"ip", "x; reboot", "c", "input", true}),
		check: "firewall", want: Warning, mend: "nft list ruleset   #"},
	"a chain that accepts": {look: chainsOf(Chain{"ip", "filter", "INPUT", "input", false}), check: "firewall",
		want: OK},
	"a packet filter that can't be read": {
		look:  func(s *System) { s.Chains = func() ([]Chain, error) { return nil, errors.New("no") } },
		check: "firewall", want: Unknown, mend: "sudo"},
	"legacy rules, which predate nftables": {files: map[string]string{"/proc/net/ip_tables_names": "filter\n"},
		check: "firewall", want: Warning, mend: "iptables-legacy -S"},
	"no runtime": {files: map[string]string{"/run/containerd/containerd.sock": gone}, check: "runtime", want: Missing,
		mend: "apt-get install -y containerd && systemctl enable --now containerd"},
	"a runtime that is off": {
		files: map[string]string{"/run/containerd/containerd.sock": gone, "/usr/bin/containerd": "#!"},
		check: "runtime", want: Missing, found: "does not run", mend: "systemctl enable --now containerd"},
	"no kubelet, and packages are configured": {
		files: map[string]string{"/usr/bin/kubelet": gone, "/etc/capstan/agent.yaml": "bundles: packages\n"},
		check: "kubernetes", want: Missing, found: "kubelet", mend: "#"},
	"no kubelet, which a bundle may bring": {files: map[string]string{"/usr/bin/kubelet": gone}, check: "kubernetes",
		want: Warning, found: "none of its own", mend: "# on the plane's computer"},
	"a package's runtime next to a bundle": {
		files: map[string]string{"/usr/lib/systemd/system/containerd.service": "",
			"/opt/capstan/bundles/v1.36.3-linux-amd64.tar.gz": ""},
		check: "runtime", want: Missing, found: "containerd of a package", mend: "apt-get remove -y containerd"},
	"a bundle": {files: map[string]string{"/usr/bin/kubelet": gone, "/opt/capstan/bundles/v1.36.3/x": ""},
		check: "kubernetes", want: OK, found: "v1.36.3"},
	"no losetup": {files: map[string]string{"/usr/sbin/losetup": gone}, check: "tools", want: Missing,
		found: "losetup", mend: "apt-get install -y mount"},
	"no tools on another distribution": {
		files: map[string]string{"/usr/sbin/losetup": gone, "/etc/os-release": "ID=void\n"},
		check: "tools", want: Missing, found: "losetup", mend: "# install what your distribution calls mount"},
	"an earlier node": {files: map[string]string{"/etc/kubernetes/manifests/etcd.yaml": ""}, check: "leftovers",
		want: Warning, found: "/etc/kubernetes/manifests", mend: "kubeadm reset"},
}

func unsynchronized(s *System) { s.Synchronized = func() (bool, error) { return false, nil } }

func chainsOf(all ...Chain) func(*System) {
	return func(s *System) { s.Chains = func() ([]Chain, error) { return all, nil } }
}

// listening returns the kernel's line about a listener.
func listening(port, inode string) string {
	return "  sl  local_address\n   0: 00000000:" + port + " 00000000:0000 0A 0:0 0:0 0 0 0 " + inode + " 1\n"
}

func TestRun(t *testing.T) {
	for name, p := range problems {
		t.Run(name, func(t *testing.T) {
			s := computer(t, p.files)
			if p.look != nil {
				p.look(s)
			}
			all := Run(s, Role{Worker: p.worker})
			for _, f := range all {
				if f.Check != p.check {
					continue
				}
				if f.Verdict != p.want || !strings.Contains(f.Found, p.found) || !strings.Contains(f.Mend, p.mend) {
					t.Errorf("got %+v", f)
				}
				if (p.mend == "") != (f.Mend == "") {
					t.Errorf("the command is %q", f.Mend)
				}
			}
			if want := p.want != Missing; Fit(all) != want {
				t.Errorf("Fit returns %v for %+v", !want, all)
			}
		})
	}
}

func TestEveryCheckHasAProblem(t *testing.T) {
	has := map[string]bool{}
	for _, p := range problems {
		has[p.check] = true
	}
	for _, c := range checks {
		if !has[c.name] {
			t.Errorf("no case makes check %s find a problem", c.name)
		}
		delete(has, c.name)
	}
	if len(has) > 0 {
		t.Errorf("problems of unknown checks: %v", has)
	}
}

func TestAHealthyComputerMissesNothing(t *testing.T) {
	for _, f := range Run(computer(t, nil), Role{}) {
		if f.Verdict != OK || f.Mend != "" || f.Found == "" {
			t.Errorf("got %+v", f)
		}
	}
}

// TestCommandsAreLinesOfAShell makes a shell parse every command without running it.
func TestCommandsAreLinesOfAShell(t *testing.T) {
	for name, p := range problems {
		s := computer(t, p.files)
		if p.look != nil {
			p.look(s)
		}
		for _, f := range Run(s, Role{Worker: p.worker}) {
			if strings.Contains(f.Mend, "\n") {
				t.Errorf("%s: %q is more than one line", name, f.Mend)
			}
			if out, err := exec.Command("sh", "-n", "-c", f.Mend).CombinedOutput(); err != nil {
				t.Errorf("%s: a shell can't parse %q: %v %s", name, f.Mend, err, out)
			}
		}
	}
}

// TestSwapIsForgotten runs the command that changes fstab on a copy.
func TestSwapIsForgotten(t *testing.T) {
	const disks = "# swap of old\n/dev/vda1 / ext4 defaults 0 1\n"
	const before = disks + "UUID=1-2 none\tswap\tsw 0 0\n/swapfile none swap sw 0 0\n"
	const after = disks + "#UUID=1-2 none\tswap\tsw 0 0\n#/swapfile none swap sw 0 0\n"
	s := computer(t, map[string]string{"/etc/fstab": before})
	f := swap(s, Role{})
	path := filepath.Join(s.Root, "/etc/fstab")
	if out, err := exec.Command("sh", "-c", strings.ReplaceAll(f.Mend, "/etc/fstab", path)).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v %s", f.Mend, err, out)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != after {
		t.Errorf("got %q, %v", got, err)
	}
	if f := swap(s, Role{}); f.Verdict != OK {
		t.Errorf("the check finds afterwards: %+v", f)
	}
}

func TestTable(t *testing.T) {
	cases := map[string]struct {
		args  []string
		files map[string]string
		code  int
		out   string
		err   string
	}{
		"a healthy computer": {code: 0, out: "sysctls        ok        net.ipv4.ip_forward=1"},
		"a warning":          {files: map[string]string{"/etc/fstab": "a b swap"}, code: 0, out: "warning"},
		"something missing": {files: map[string]string{"/proc/sys/net/ipv4/ip_forward": "0"}, code: 1,
			out: "sysctls        missing   net.ipv4.ip_forward is 0  "},
		"a name with control characters": {files: map[string]string{"/proc/sys/kernel/hostname": "a\x1b[2Jb"}, code: 1,
			out: `"a\x1b[2Jb" can't be`},
		"another format":         {args: []string{"--output", "xml"}, code: 2, err: "see capstan-agent preflight --help"},
		"an unexpected argument": {args: []string{"x"}, code: 2, err: "see capstan-agent preflight --help"},
		"an unknown source":      {args: []string{"--bundles", "x"}, code: 2, err: "source of bundles"},
		"an unknown flag":        {args: []string{"--x"}, code: 2, err: "-x"},
		"help":                   {args: []string{"--help"}, code: 0, err: "changes nothing"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			code := Main(computer(t, c.files), c.args, &out, &errOut)
			if code != c.code || !strings.Contains(out.String(), c.out) || !strings.Contains(errOut.String(), c.err) {
				t.Errorf("code %d, output:\n%s%s", code, &out, &errOut)
			}
			if strings.Contains(out.String(), "\x1b") {
				t.Errorf("control characters reach the terminal: %q", out.String())
			}
		})
	}
}

func TestMainForPrograms(t *testing.T) {
	var out, errOut bytes.Buffer
	code := Main(computer(t, map[string]string{"/proc/sys/net/ipv4/ip_forward": "0"}), []string{"--output=json"}, &out,
		&errOut)
	var all []Finding
	if err := json.Unmarshal(out.Bytes(), &all); err != nil || code != 1 || len(all) != len(checks) {
		t.Fatalf("code %d, %v: %s%s", code, err, &out, &errOut)
	}
	for _, f := range all {
		if (f.Verdict == Missing) != (f.Check == "sysctls") {
			t.Errorf("got %+v", f)
		}
	}
}
