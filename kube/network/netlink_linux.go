package network

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Netlink is the Kernel of one network namespace: the namespace of the thread that called Open.
type Netlink struct{ handle *netlink.Handle }

// netlinkLimit bounds the wait for the kernel.
const netlinkLimit = 10 * time.Second

// Open connects to the kernel. The caller must close the connection.
func Open() (*Netlink, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE, unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("opening a netlink socket: %w", err)
	}
	if err := h.SetSocketTimeout(netlinkLimit); err != nil {
		h.Close()
		return nil, fmt.Errorf("bounding waits for netlink: %w", err)
	}
	return &Netlink{h}, nil
}

// Close disconnects.
func (n *Netlink) Close() { n.handle.Close() }

// MakeVeth implements Kernel.
func (n *Netlink) MakeVeth(
	name string, mac net.HardwareAddr, peer string, peerMAC net.HardwareAddr, mtu int, space string,
) error {
	if err := n.DeleteLink(name); err != nil {
		return err
	}
	fd, err := unix.Open(space, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening the pod's network namespace: %w", err)
	}
	defer unix.Close(fd)
	err = n.handle.LinkAdd(&netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: name, HardwareAddr: mac, MTU: mtu, TxQLen: -1},
		PeerName:  peer, PeerHardwareAddr: peerMAC, PeerMTU: uint32(mtu), PeerNamespace: netlink.NsFd(fd),
	})
	if errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("%w: load the module as root: modprobe veth", err)
	}
	return err
}

// EnsureAddress implements Kernel.
func (n *Netlink) EnsureAddress(link string, address netip.Addr) error {
	l, err := n.handle.LinkByName(link)
	if err != nil {
		return err
	}
	return n.handle.AddrReplace(l, addressOf(address))
}

// DeleteAddress implements Kernel.
func (n *Netlink) DeleteAddress(link string, address netip.Addr) error {
	l, err := n.handle.LinkByName(link)
	if err == nil {
		err = n.handle.AddrDel(l, addressOf(address))
	}
	if isMissing(err) || errors.Is(err, unix.EADDRNOTAVAIL) {
		return nil
	}
	return err
}

func addressOf(a netip.Addr) *netlink.Addr {
	address := &netlink.Addr{IPNet: ipNet(single(a))}
	if a.Is6() {
		address.Flags = unix.IFA_F_NODAD // no other node can have it
	}
	return address
}

// EnsureNeighbor implements Kernel.
func (n *Netlink) EnsureNeighbor(link string, address netip.Addr, mac net.HardwareAddr) error {
	l, err := n.handle.LinkByName(link)
	if err != nil {
		return err
	}
	return n.handle.NeighSet(&netlink.Neigh{
		LinkIndex: l.Attrs().Index, State: unix.NUD_PERMANENT, IP: address.AsSlice(), HardwareAddr: mac,
	})
}

// EnsureRoute implements Kernel.
func (n *Netlink) EnsureRoute(link string, to netip.Prefix, via, source netip.Addr) error {
	l, err := n.handle.LinkByName(link)
	if err != nil {
		return err
	}
	r := &netlink.Route{LinkIndex: l.Attrs().Index, Dst: ipNet(to), Scope: netlink.SCOPE_LINK}
	if via.IsValid() {
		r.Scope, r.Gw, r.Flags = netlink.SCOPE_UNIVERSE, via.AsSlice(), int(netlink.FLAG_ONLINK)
	}
	if source.IsValid() {
		r.Src = source.AsSlice()
	}
	return n.handle.RouteReplace(r)
}

// SetUp implements Kernel.
func (n *Netlink) SetUp(link string) error {
	l, err := n.handle.LinkByName(link)
	if err != nil {
		return err
	}
	return n.handle.LinkSetUp(l)
}

// Limits of waits for what the kernel does asynchronously.
const (
	awaitLimit    = 5 * time.Second
	awaitInterval = time.Millisecond
)

// AwaitRunning implements Kernel.
func (n *Netlink) AwaitRunning(link string) error {
	for deadline := time.Now().Add(awaitLimit); ; time.Sleep(awaitInterval) {
		l, err := n.handle.LinkByName(link)
		if err != nil || l.Attrs().OperState == netlink.OperUp {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the link is %s, not up, after %s", l.Attrs().OperState, awaitLimit)
		}
	}
}

// AwaitLocal implements Kernel.
func (n *Netlink) AwaitLocal(address netip.Addr) error {
	for deadline := time.Now().Add(awaitLimit); ; time.Sleep(awaitInterval) {
		routes, err := n.handle.RouteGet(address.AsSlice())
		if err == nil && len(routes) == 1 && routes[0].Type == unix.RTN_LOCAL {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the kernel has not accepted the address after %s (%v)", awaitLimit, err)
		}
	}
}

// DeleteLink implements Kernel.
func (n *Netlink) DeleteLink(name string) error {
	l, err := n.handle.LinkByName(name)
	if err == nil {
		err = n.handle.LinkDel(l)
	}
	// The kernel may delete it at the same time, when the peer's namespace ends.
	if isMissing(err) {
		return nil
	}
	return err
}

// SetSysctl implements Kernel.
func (n *Netlink) SetSysctl(key, value string, optional bool) error {
	path := filepath.Join("/proc/sys/net", key)
	have, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && optional {
		return nil
	}
	if err == nil && strings.TrimSpace(string(have)) == value {
		return nil
	}
	return os.WriteFile(path, []byte(value), 0)
}

// Cables lists the host's ends of its cables to pods.
func (n *Netlink) Cables() ([]string, error) {
	links, err := list(n.handle.LinkList)
	if err != nil {
		return nil, fmt.Errorf("listing links: %w", err)
	}
	var names []string
	for _, l := range links {
		if strings.HasPrefix(l.Attrs().Name, linkStart) {
			names = append(names, l.Attrs().Name)
		}
	}
	return names, nil
}

// Uplink describes this host's link to all other hosts.
type Uplink struct {
	Address netip.Addr // the host's IPv4 address on that link; invalid if there is none
	MTU     int        // the MTU for pods: the MTU of the link minus the tunnel's headers
}

// Uplink returns the link of the default route.
func (n *Netlink) Uplink() (Uplink, error) {
	routes, err := list(func() ([]netlink.Route, error) { return n.handle.RouteList(nil, unix.AF_INET) })
	if err != nil {
		return Uplink{}, fmt.Errorf("listing routes: %w", err)
	}
	for _, r := range routes {
		if r.Dst != nil && !r.Dst.IP.IsUnspecified() {
			continue
		}
		l, err := n.handle.LinkByIndex(r.LinkIndex)
		if err != nil {
			return Uplink{}, fmt.Errorf("reading the link of the default route: %w", err)
		}
		addresses, err := list(func() ([]netlink.Addr, error) { return n.handle.AddrList(l, unix.AF_INET) })
		if err != nil {
			return Uplink{}, fmt.Errorf("listing addresses: %w", err)
		}
		up := Uplink{MTU: l.Attrs().MTU - TunnelHeaders}
		for _, a := range addresses {
			if address, ok := netip.AddrFromSlice(a.IP.To4()); ok && !up.Address.IsValid() {
				up.Address = address
			}
		}
		return up, nil
	}
	return Uplink{MTU: mtuDefault - TunnelHeaders}, nil
}

const mtuDefault = 1500

// Forget removes the kernel's tracked connections from and to addresses, and UDP connections to ports of the host.
// Otherwise a client that sends without a pause would be directed to the previous pod forever.
func (n *Netlink) Forget(addresses []netip.Addr, ports []HostPort) error {
	for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
		filter := stale{addresses, ports}
		if _, err := n.handle.ConntrackDeleteFilters(netlink.ConntrackTable, family, filter); err != nil {
			return fmt.Errorf("forgetting connections of a pod: %w", err)
		}
	}
	return nil
}

// stale selects the connections to forget.
type stale struct {
	addresses []netip.Addr
	ports     []HostPort
}

// MatchConntrackFlow implements netlink.CustomConntrackFilter.
func (s stale) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	for _, a := range s.addresses {
		ip := net.IP(a.AsSlice())
		if flow.Forward.SrcIP.Equal(ip) || flow.Forward.DstIP.Equal(ip) || flow.Reverse.SrcIP.Equal(ip) {
			return true
		}
	}
	for _, p := range s.ports {
		if flow.Forward.Protocol == uint8(p.Protocol) && p.Protocol == unix.IPPROTO_UDP && flow.Forward.DstPort == p.Port {
			return true
		}
	}
	return false
}

// dumpTries bounds how often a list that changed during reading is read again.
const dumpTries = 5

func list[T any](read func() ([]T, error)) ([]T, error) {
	for range dumpTries {
		all, err := read()
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			return all, err
		}
	}
	return nil, netlink.ErrDumpInterrupted
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func isMissing(err error) bool {
	var notFound netlink.LinkNotFoundError
	return errors.As(err, &notFound) || errors.Is(err, unix.ENODEV)
}
