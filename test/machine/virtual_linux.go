package machine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
)

// The resources of a virtual machine: enough for a Kubernetes control plane.
const (
	virtualMemory     = "4096" // MiB
	virtualProcessors = "2"
	virtualDisk       = "12G" // sparse: unwritten parts take no room
)

// virtualBootLimit limits the time until all units of a virtual machine have started. Each instruction is emulated, and
// the computer may have other work.
const virtualBootLimit = 10 * time.Minute

// virtual is the body of a machine with its own kernel and disk, which qemu emulates. It needs no hardware
// virtualization, which is often missing inside a virtual machine.
type virtual struct {
	machine *Machine
	root    string // the initial content of its disk, and its kernel
}

// StartVirtual starts a virtual machine at an address of the LAN, from a root of [VirtualRoot], and returns when it has
// booted. The machine's disk is in dir.
func StartVirtual(ctx context.Context, lan *LAN, root, dir, name, address string) (*Machine, error) {
	m := &Machine{Name: name, Address: address, lan: lan, dir: filepath.Join(dir, name), limit: virtualBootLimit}
	v := &virtual{machine: m, root: root}
	m.body = v
	if err := os.Mkdir(m.dir, 0o755); err != nil {
		return nil, err
	}
	if err := v.makeDisk(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("the disk of machine %s: %w", name, err), m.Remove())
	}
	return m, m.Boot(ctx)
}

func (v *virtual) path(elements ...string) string {
	return filepath.Join(append([]string{v.machine.dir}, elements...)...)
}

// launch starts qemu.
func (v *virtual) launch(port string, console *os.File) (*exec.Cmd, error) {
	if err := v.machine.lan.tap(port); err != nil {
		return nil, err
	}
	kernel, err := onlyFile(filepath.Join(v.root, "boot", "vmlinuz-*"))
	if err != nil {
		return nil, err
	}
	first, err := onlyFile(filepath.Join(v.root, "boot", "initrd.img-*"))
	if err != nil {
		return nil, err
	}
	address := net.ParseIP(v.machine.Address).To4()
	cmd := exec.Command("qemu-system-x86_64", "-name", v.machine.Name, "-nodefaults", "-no-user-config",
		"-machine", "q35,accel=tcg", "-cpu", "max", "-smp", virtualProcessors, "-m", virtualMemory,
		"-display", "none", "-chardev", "file,id=console,append=on,path="+v.machine.console(), "-serial", "chardev:console",
		"-kernel", kernel, "-initrd", first, "-append", "root=/dev/vda rw console=ttyS0 loglevel=4",
		// The test kills only qemu, not this computer, so everything that qemu has written survives.
		"-drive", "if=none,id=disk,format=raw,cache=unsafe,file="+v.path("disk"), "-device", "virtio-blk-pci,drive=disk",
		"-netdev", "tap,id=lan,script=no,downscript=no,ifname="+port, "-device",
		fmt.Sprintf("virtio-net-pci,netdev=lan,romfile=,mac=52:54:%02x:%02x:%02x:%02x", address[0], address[1], address[2],
			address[3]), "-device", "virtio-rng-pci")
	cmd.Stdout, cmd.Stderr = console, console
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd, cmd.Start()
}

// onlyFile returns the one file that a pattern matches.
func onlyFile(pattern string) (string, error) {
	found, err := filepath.Glob(pattern)
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("want one file %s, have %q", pattern, found)
	}
	if err != nil {
		return "", err
	}
	return found[0], nil
}

// reachable reports whether something listens for ssh. Connecting with ssh would take long.
func (v *virtual) reachable(int) bool {
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(v.machine.Address, "22"), time.Second)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// command returns a command that runs through the machine's own sshd.
func (v *virtual) command(ctx context.Context, line string) *exec.Cmd {
	return exec.CommandContext(ctx, "ssh", "-F", "none", "-i", v.path("key"), "-o", "BatchMode=yes",
		"-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR",
		"-o", "ConnectTimeout="+strconv.Itoa(int(time.Minute/time.Second)), "root@"+v.machine.Address, line)
}

// release does nothing: the cable belongs to the Machine.
func (v *virtual) release() error { return nil }

// tap creates a cable for a process that handles packets itself.
func (l *LAN) tap(port string) error {
	tap := &netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: port}, Mode: netlink.TUNTAP_MODE_TAP}
	if err := netlink.LinkAdd(tap); err != nil {
		return fmt.Errorf("making a cable: %w", err)
	}
	bridge, err := netlink.LinkByName(l.bridge)
	if err != nil {
		return err
	}
	return errors.Join(netlink.LinkSetMaster(tap, bridge), netlink.LinkSetUp(tap))
}
