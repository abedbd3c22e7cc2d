// Package nettest creates network namespaces for tests: a dock that routes between hosts as package dock/network does,
// its hosts, and pods. Only tests import it.
package nettest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/kube/network"
)

// Space is a network namespace that exists until the test ends.
type Space struct {
	t    testing.TB
	file *os.File
}

// New creates a network namespace with a loopback interface.
func New(t testing.TB) *Space {
	t.Helper()
	type made struct {
		file *os.File
		err  error
	}
	done := make(chan made)
	go func() {
		runtime.LockOSThread() // never unlock: the thread exits with the goroutine
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			done <- made{nil, err}
			return
		}
		file, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
		done <- made{file, err}
	}()
	m := <-done
	if m.err != nil {
		t.Fatalf("making a network namespace: %v", m.err)
	}
	t.Cleanup(func() { m.file.Close() })
	s := &Space{t, m.file}
	s.Do(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(lo)
	})
	return s
}

// Here returns the test's current network namespace.
func Here(t testing.TB) *Space {
	t.Helper()
	file, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return &Space{t, file}
}

// Path returns a path at which the namespace can be opened.
func (s *Space) Path() string { return fmt.Sprintf("/proc/self/fd/%d", s.file.Fd()) }

// Do calls f in the namespace.
func (s *Space) Do(f func() error) {
	s.t.Helper()
	if err := network.Within(s.Path(), f); err != nil {
		s.t.Fatal(err)
	}
}

// Dock is a namespace that routes between hosts. Each host has its own cable and can send only from its own address.
type Dock struct {
	*Space
	t testing.TB
}

// Gateway is the dock's own address.
var Gateway = netip.MustParseAddr("10.231.0.1")

// NewDock creates a dock.
func NewDock(t testing.TB) *Dock {
	t.Helper()
	d := &Dock{New(t), t}
	d.Do(func() error {
		for _, key := range []string{"ip_forward", "conf/all/rp_filter", "conf/default/rp_filter"} {
			if err := os.WriteFile("/proc/sys/net/ipv4/"+key, []byte("1"), 0); err != nil {
				return err
			}
		}
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.AddrAdd(lo, address(Gateway))
	})
	return d
}

// Host creates a host with this address and a cable to the dock, as PlanLink and PlanHost of dock/network do.
func (d *Dock) Host(a netip.Addr) *Space {
	d.t.Helper()
	h := New(d.t)
	b := a.As4()
	name := fmt.Sprintf("host-%d-%d", b[2], b[3])
	d.Do(func() error {
		if err := netlink.LinkAdd(&netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: name, TxQLen: -1}, PeerName: "eth0",
			PeerNamespace: netlink.NsFd(int(h.file.Fd())),
		}); err != nil {
			return err
		}
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if err := netlink.LinkSetUp(l); err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{
			LinkIndex: l.Attrs().Index, Dst: address(a).IPNet, Scope: netlink.SCOPE_LINK, Src: Gateway.AsSlice(),
		})
	})
	defer func() { // wait until both ends of the cable carry packets
		for _, end := range []struct {
			space *Space
			link  string
		}{{h, "eth0"}, {d.Space, name}} {
			end.space.Do(func() error {
				k, err := network.Open()
				if err != nil {
					return err
				}
				defer k.Close()
				return k.AwaitRunning(end.link)
			})
		}
	}()
	h.Do(func() error {
		for key, value := range map[string]string{"ipv4/ip_forward": "1", "ipv6/conf/default/disable_ipv6": "1"} {
			if err := os.WriteFile("/proc/sys/net/"+key, []byte(value), 0); err != nil {
				return err
			}
		}
		l, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		if err := netlink.AddrAdd(l, address(a)); err != nil {
			return err
		}
		if err := netlink.LinkSetUp(l); err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{
			LinkIndex: l.Attrs().Index, Gw: Gateway.AsSlice(), Flags: int(netlink.FLAG_ONLINK),
			Dst: &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)},
		})
	})
	return h
}

func address(a netip.Addr) *netlink.Addr {
	return &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}}
}

// MTU returns the MTU of a link.
func (s *Space) MTU(link string) (mtu int) {
	s.t.Helper()
	s.Do(func() error {
		l, err := netlink.LinkByName(link)
		if err == nil {
			mtu = l.Attrs().MTU
		}
		return err
	})
	return mtu
}

// Take adds an address to a link, even if another namespace has the address.
func (s *Space) Take(link string, a netip.Addr) {
	s.t.Helper()
	s.change(link, a, netlink.AddrReplace)
}

// Leave removes an address that Take added.
func (s *Space) Leave(link string, a netip.Addr) {
	s.t.Helper()
	s.change(link, a, netlink.AddrDel)
}

func (s *Space) change(link string, a netip.Addr, change func(netlink.Link, *netlink.Addr) error) {
	s.t.Helper()
	s.Do(func() error {
		l, err := netlink.LinkByName(link)
		if err != nil {
			return err
		}
		taken := address(a)
		if a.Is6() {
			taken.Flags = unix.IFA_F_NODAD
		}
		return change(l, taken)
	})
}

// RemoveLinks removes the links whose names begin with prefix.
func (s *Space) RemoveLinks(prefix string) {
	s.t.Helper()
	s.Do(func() error {
		links, err := netlink.LinkList()
		for _, l := range links {
			if strings.HasPrefix(l.Attrs().Name, prefix) {
				err = errors.Join(err, netlink.LinkDel(l))
			}
		}
		return err
	})
}
