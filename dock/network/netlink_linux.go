package network

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Netlink is the Kernel of this process's network namespace.
type Netlink struct{ handle *netlink.Handle }

// Open connects to the kernel. The caller must close the connection.
func Open() (*Netlink, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("opening a netlink socket: %w", err)
	}
	if err := h.SetSocketTimeout(10 * time.Second); err != nil {
		h.Close()
		return nil, fmt.Errorf("bounding waits for netlink: %w", err)
	}
	return &Netlink{h}, nil
}

// Close disconnects.
func (n *Netlink) Close() { n.handle.Close() }

// EnsureBridge implements Kernel.
func (n *Netlink) EnsureBridge(name string, mac net.HardwareAddr) error {
	err := n.handle.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name, HardwareAddr: mac, TxQLen: -1}})
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return explain(err, "bridge")
	}
	return nil
}

// MakeVeth implements Kernel.
func (n *Netlink) MakeVeth(name, peer string, mac net.HardwareAddr, pid int) error {
	if err := n.DeleteLink(name); err != nil {
		return err
	}
	err := n.handle.LinkAdd(&netlink.Veth{
		LinkAttrs:        netlink.LinkAttrs{Name: name, TxQLen: -1},
		PeerName:         peer,
		PeerHardwareAddr: mac,
		PeerNamespace:    netlink.NsPid(pid),
	})
	if err != nil {
		return explain(err, "veth")
	}
	return n.SetUp(name)
}

// EnsureAddress implements Kernel.
func (n *Netlink) EnsureAddress(link string, prefix netip.Prefix) error {
	l, err := n.handle.LinkByName(link)
	if err != nil {
		return err
	}
	if err := n.handle.AddrReplace(l, addr(prefix)); err != nil {
		return err
	}
	return nil
}

// DeleteAddress implements Kernel.
func (n *Netlink) DeleteAddress(link string, prefix netip.Prefix) error {
	l, err := n.handle.LinkByName(link)
	if isMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := n.handle.AddrDel(l, addr(prefix)); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return err
	}
	return nil
}

// SetUp implements Kernel.
func (n *Netlink) SetUp(link string) error {
	l, err := n.handle.LinkByName(link)
	if err != nil {
		return err
	}
	return n.handle.LinkSetUp(l)
}

// EnsureRoute implements Kernel.
func (n *Netlink) EnsureRoute(link string, to netip.Prefix, via, source netip.Addr) error {
	l, err := n.handle.LinkByName(link)
	if err != nil {
		return err
	}
	route := &netlink.Route{
		LinkIndex: l.Attrs().Index, Scope: netlink.SCOPE_LINK, Src: source.AsSlice(),
		Dst: &net.IPNet{IP: to.Addr().AsSlice(), Mask: net.CIDRMask(to.Bits(), to.Addr().BitLen())},
	}
	if via.IsValid() {
		route.Scope, route.Gw, route.Flags = netlink.SCOPE_UNIVERSE, via.AsSlice(), int(netlink.FLAG_ONLINK)
	}
	return n.handle.RouteReplace(route)
}

// EnsureDefaultRoute implements Kernel.
func (n *Netlink) EnsureDefaultRoute(link string, gateway netip.Addr) error {
	l, err := n.handle.LinkByName(link)
	if err != nil {
		return err
	}
	return n.handle.RouteReplace(&netlink.Route{
		LinkIndex: l.Attrs().Index,
		Dst:       &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)},
		Gw:        gateway.AsSlice(),
		Flags:     int(netlink.FLAG_ONLINK),
	})
}

// DeleteLink implements Kernel.
func (n *Netlink) DeleteLink(name string) error {
	l, err := n.handle.LinkByName(name)
	if isMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	// The kernel may delete the link at the same time, while it cleans up the peer's dead namespace.
	if err := n.handle.LinkDel(l); err != nil && !isMissing(err) {
		return err
	}
	return nil
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
	if err := os.WriteFile(path, []byte(value), 0); err != nil && !optional {
		return err
	}
	return nil
}

// Dump returns the links, addresses and routes of the namespace as sorted text: "link eth0 mac 02:.. up", "address ..",
// "route ..".
func (n *Netlink) Dump() (string, error) {
	links, err := n.handle.LinkList()
	if err != nil {
		return "", fmt.Errorf("listing links: %w", err)
	}
	var lines []string
	names := map[int]string{}
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	for _, l := range links {
		a := l.Attrs()
		line := fmt.Sprintf("link %s %s", a.Name, l.Type())
		if l.Type() == "bridge" || a.Name == HostLink {
			line += " mac " + a.HardwareAddr.String()
		}
		if a.MasterIndex != 0 {
			line += " on " + names[a.MasterIndex]
		}
		if a.Flags&net.FlagUp != 0 {
			line += " up"
		}
		lines = append(lines, line)
		addrs, err := n.handle.AddrList(l, unix.AF_INET)
		if err != nil {
			return "", fmt.Errorf("listing addresses of %s: %w", a.Name, err)
		}
		for _, ad := range addrs {
			lines = append(lines, fmt.Sprintf("address %s on %s", ad.IPNet, a.Name))
		}
	}
	routes, err := n.handle.RouteList(nil, unix.AF_INET)
	if err != nil {
		return "", fmt.Errorf("listing routes: %w", err)
	}
	for _, r := range routes {
		line := "route default"
		if r.Dst != nil && !r.Dst.IP.IsUnspecified() {
			line = "route " + r.Dst.String()
		}
		if r.Gw != nil {
			line += " via " + r.Gw.String()
		}
		lines = append(lines, line+" on "+names[r.LinkIndex])
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n") + "\n", nil
}

func addr(p netip.Prefix) *netlink.Addr {
	return &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), 32)}}
}

func isMissing(err error) bool {
	var notFound netlink.LinkNotFoundError
	return errors.As(err, &notFound) || errors.Is(err, unix.ENODEV)
}

// ErrNoDriver is wrapped by errors that mean that the kernel does not support a kind of link.
var ErrNoDriver = errors.New("the kernel does not support such links")

func explain(err error, kind string) error {
	switch {
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%w (%w): load the module as root: modprobe %s", ErrNoDriver, err, kind)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: no permission to administer this network namespace", err)
	}
	return err
}
