// Package testhost runs a test in a throw-away host: in its own namespaces for mounts, processes, network and host
// name, and with a root directory that has the machine's programs but its own /etc, /var, /run and /usr/local. All
// changes that the test makes there disappear with the host.
package testhost

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/agent/command"
)

const (
	// variable is an environment variable of the process inside the host: it contains the directory that becomes the
	// root directory.
	variable = "CAPSTAN_TEST_HOST"
	// sharedVariable is an environment variable with what RunWith shares, as FROM=TO, separated by colons.
	sharedVariable = "CAPSTAN_TEST_HOST_SHARED"
)

// Binary is the path of the test's own binary in the host.
const Binary = "/opt/capstan/bin/test"

// Address is the host's address, on its default route.
const Address = "10.99.0.2"

// fromMachine are files copied from the machine's /etc, which programs such as useradd need.
var fromMachine = []string{
	"login.defs", "default", "pam.d", "pam.conf", "security", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "mke2fs.conf",
	"alternatives", "protocols", "services",
}

// ownFiles are the host's own files.
var ownFiles = map[string]string{
	"passwd":        "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
	"group":         "root:x:0:\nnogroup:x:65534:\n",
	"shadow":        "root:*:19000:0:99999:7:::\nnobody:*:19000:0:99999:7:::\n",
	"gshadow":       "root:*::\nnogroup:!::\n",
	"nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files\n",
	"os-release":    "PRETTY_NAME=\"Test host\"\n",
	"hosts":         "127.0.0.1 localhost\n",
	"fstab":         "# of the host\n",
}

// Inside reports whether this process belongs to a throw-away host.
func Inside() bool { return os.Getenv(variable) != "" }

// Run runs test as root in a throw-away host. It skips the test where the kernel does not allow that.
func Run(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	RunWith(t, func(*testing.T) map[string]string { return nil }, test)
}

// RunWith is like Run, and also shares files and directories of the machine with the host. share maps their paths to
// paths in the host; it is called only outside the host.
func RunWith(t *testing.T, share func(t *testing.T) map[string]string, test func(t *testing.T)) {
	t.Helper()
	if root := os.Getenv(variable); root != "" {
		if err := enter(root); err != nil {
			t.Fatalf("making the host: %v", err)
		}
		test(t)
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var shared []string
	for from, to := range share(t) {
		shared = append(shared, from+"="+to)
	}
	cmd := exec.Command(self, "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), variable+"="+t.TempDir(), "TMPDIR=/tmp",
		sharedVariable+"="+strings.Join(shared, ":"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = attributes()
	err = cmd.Run()
	t.Logf("inside:\n%s", out.String())
	switch {
	case strings.Contains(out.String(), "--- SKIP"):
		t.Skip("skipped inside")
	case err != nil && cmd.ProcessState == nil:
		t.Skipf("namespaces can't be made here: %v", err)
	case err != nil:
		t.Fatalf("failed inside: %v", err)
	case !strings.Contains(out.String(), "--- PASS: "+t.Name()):
		t.Fatal("the test did not run inside")
	}
}

func attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	if os.Geteuid() != 0 {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return attr
}

// OneID reports whether the host has only one user id, so that nothing can belong to another user. This is so if an
// ordinary user runs the test.
func OneID() bool {
	data, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false
	}
	fields := strings.Fields(string(data)) // id inside, id outside, number of ids
	return len(fields) == 3 && fields[2] == "1"
}

// enter makes root the root directory of this process.
func enter(root string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := unix.Mount("root", root, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mounting the root: %w", err)
	}
	if err := skeleton(root); err != nil {
		return err
	}
	if err := mounts(root, self); err != nil {
		return err
	}
	if err := pivot(root); err != nil {
		return fmt.Errorf("changing the root: %w", err)
	}
	return network()
}

func skeleton(root string) error {
	for _, dir := range []string{"usr", "etc", "var/lib", "var/log", "run", "tmp", "proc", "dev", "sys", "root", "home",
		"opt/capstan/bin", "old"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} {
		if link, err := os.Readlink("/" + dir); err == nil {
			if err := os.Symlink(link, filepath.Join(root, dir)); err != nil {
				return err
			}
		}
	}
	for name, content := range ownFiles {
		if err := os.WriteFile(filepath.Join(root, "etc", name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	for _, name := range fromMachine {
		// Files that an ordinary user may not read are left out.
		_ = exec.Command("cp", "-rL", "/etc/"+name, filepath.Join(root, "etc")).Run()
	}
	return nil
}

func mounts(root, self string) error {
	bind := func(from, to string) error {
		if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("binding %s: %w", from, err)
		}
		return nil
	}
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} {
		if info, err := os.Lstat("/" + dir); err == nil && info.IsDir() {
			to := filepath.Join(root, dir)
			if err := os.Mkdir(to, 0o755); err != nil {
				return err
			}
			if err := bind("/"+dir, to); err != nil {
				return err
			}
		}
	}
	if err := bind("/usr", filepath.Join(root, "usr")); err != nil {
		return err
	}
	if err := unix.Mount("local", filepath.Join(root, "usr/local"), "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	if err := unix.Mount("run", filepath.Join(root, "run"), "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	if err := bind("/dev", filepath.Join(root, "dev")); err != nil {
		return err
	}
	if err := bind("/sys", filepath.Join(root, "sys")); err != nil {
		return err
	}
	if err := unix.Mount("proc", filepath.Join(root, "proc"), "proc", 0, ""); err != nil {
		if err := bind("/proc", filepath.Join(root, "proc")); err != nil {
			return err
		}
	}
	shared := map[string]string{self: Binary}
	for pair := range strings.SplitSeq(os.Getenv(sharedVariable), ":") {
		if from, to, ok := strings.Cut(pair, "="); ok {
			shared[from] = to
		}
	}
	for from, to := range shared {
		to = filepath.Join(root, to)
		if err := place(from, to); err != nil {
			return err
		}
		if err := bind(from, to); err != nil {
			return err
		}
	}
	return nil
}

// place creates an empty file or directory at target, so that source can be mounted on it.
func place(source, target string) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.MkdirAll(target, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	return os.WriteFile(target, nil, 0o755)
}

func pivot(root string) error {
	if err := unix.PivotRoot(root, filepath.Join(root, "old")); err != nil {
		return err
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if err := unix.Unmount("/old", unix.MNT_DETACH); err != nil {
		return err
	}
	return os.Remove("/old")
}

// network sets up the host's loopback device, an address, and a default route that leads nowhere.
func network() error {
	if lo, err := netlink.LinkByName("lo"); err != nil {
		return err
	} else if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "eth1"}
	if err := netlink.LinkAdd(link); err != nil {
		return err
	}
	address, err := netlink.ParseAddr(Address + "/24")
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(link, address); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return err
	}
	peer, err := netlink.LinkByName("eth1")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(peer); err != nil {
		return err
	}
	return netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: []byte{10, 99, 0, 1}})
}

// Executable writes a shell script as a program.
func Executable(t *testing.T, path, script string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
}

// Needs skips a test if this computer lacks programs that the test needs. Not every computer has the programs that
// create and examine file systems, and nothing can replace those programs.
func Needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := command.Find(program); err != nil {
			t.Skipf("%v: install e2fsprogs and util-linux to run this test", err)
		}
	}
}
