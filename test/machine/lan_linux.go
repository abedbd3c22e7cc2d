package machine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

// Environment variables that say what tests may start. Machines need a Debian, and take minutes.
const (
	Wanted        = "CAPSTAN_TEST_MACHINES" // machines that share the kernel of this computer
	WantedVirtual = "CAPSTAN_TEST_VM"       // virtual machines
)

// Environment variables that give a test binary another role.
const (
	rootVariable        = "CAPSTAN_MACHINE_ROOT"         // the root that machines start from
	virtualRootVariable = "CAPSTAN_MACHINE_VIRTUAL_ROOT" // the same for virtual machines
	insideVariable      = "CAPSTAN_MACHINES_INSIDE"      // the tests, in their own network
	machineVariable     = "CAPSTAN_MACHINE"              // the supervisor of a machine
)

// LAN is the network of the machines and the tests.
type LAN struct {
	Gateway string
	bridge  string
	bits    int
	next    int
}

// NewLAN creates a network. The tests have an address in it, and the default route leads to a gateway that does not
// exist.
func NewLAN(address string, bits int, gateway string) (*LAN, error) {
	l := &LAN{Gateway: gateway, bridge: "lan0", bits: bits}
	if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: l.bridge}}); err != nil {
		return nil, fmt.Errorf("making a bridge: %w", err)
	}
	for _, name := range []string{"lo", l.bridge} {
		link, err := netlink.LinkByName(name)
		if err == nil {
			err = netlink.LinkSetUp(link)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := l.Add(address); err != nil {
		return nil, err
	}
	return l, netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(gateway)})
}

// Add gives the tests another address.
func (l *LAN) Add(address string) error {
	at, err := netlink.ParseAddr(fmt.Sprintf("%s/%d", address, l.bits))
	if err != nil {
		return err
	}
	link, err := netlink.LinkByName(l.bridge)
	if err != nil {
		return err
	}
	return netlink.AddrAdd(link, at)
}

// Remove removes the network, so that another test can create one. Its machines must be removed first.
func (l *LAN) Remove() error {
	link, err := netlink.LinkByName(l.bridge)
	if err != nil {
		return err
	}
	return netlink.LinkDel(link)
}

// cable connects the network of a process to the bridge.
func (l *LAN) cable(port string, pid int) error {
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: port}, PeerName: "eth0",
		PeerNamespace: netlink.NsPid(pid)}); err != nil {
		return fmt.Errorf("making a cable: %w", err)
	}
	end, err := netlink.LinkByName(port)
	if err != nil {
		return err
	}
	bridge, err := netlink.LinkByName(l.bridge)
	if err != nil {
		return err
	}
	return errors.Join(netlink.LinkSetMaster(end, bridge), netlink.LinkSetUp(end))
}

// Main runs the tests of a package that uses machines, in their own isolated network. A package calls it from TestMain.
// Main first makes the roots of the requested machines, which needs the computer's own network. It returns the exit
// code.
func Main(m *testing.M) int {
	switch {
	case os.Getenv(machineVariable) != "":
		fmt.Fprintln(os.Stderr, "machine:", become(os.Getenv(machineVariable)))
		return 1
	case os.Getenv(insideVariable) != "" || os.Geteuid() != 0:
		return m.Run()
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideVariable+"=1")
	roots, err := prepare()
	if err != nil {
		fmt.Fprintln(os.Stderr, "this computer can't run machines:", err)
		return 1
	}
	cmd.Env = append(cmd.Env, roots...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	fmt.Fprintln(os.Stderr, "a network for the tests:", err)
	return 1
}

// prepare makes the roots of the requested machines, and returns their paths as environment variables.
func prepare() (variables []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	for _, kind := range []struct {
		wanted, variable string
		preflight        func() error
		recipe           recipe
	}{
		{Wanted, rootVariable, Preflight, containers(Suite())},
		{WantedVirtual, virtualRootVariable, PreflightVirtual, virtuals(Suite())},
	} {
		if os.Getenv(kind.wanted) == "" {
			continue
		}
		if err := kind.preflight(); err != nil {
			return nil, err
		}
		root, err := kind.recipe.make(ctx)
		if err != nil {
			return nil, err
		}
		variables = append(variables, kind.variable+"="+root)
	}
	return variables, nil
}
