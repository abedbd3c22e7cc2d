package routes

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/kube/network"
	"github.com/capstan-dev/capstan/kube/network/table"
)

// vni is the id of the tunnel's VXLAN network. A host has only one.
const vni = 1

// forget is the time in seconds after which the kernel forgets MACs that it learned. The tunnel does not need learned
// MACs: learning is on only so that no sender can use a peer's MAC.
const forget = 10

// dumpTries bounds how often a list that changed during reading is read again.
const dumpTries = 5

// kernel is this process's network namespace.
type kernel struct{ handle *netlink.Handle }

func openKernel() (*kernel, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("opening a netlink socket: %w", err)
	}
	if err := h.SetSocketTimeout(10 * time.Second); err != nil {
		h.Close()
		return nil, fmt.Errorf("bounding waits for netlink: %w", err)
	}
	return &kernel{h}, nil
}

func (k *kernel) close() { k.handle.Close() }

// uplink returns the MTU of the link with the Node's address.
func (k *kernel) uplink(own netip.Addr) (int, error) {
	addresses, err := list(func() ([]netlink.Addr, error) { return k.handle.AddrList(nil, unix.AF_INET) })
	if err != nil {
		return 0, fmt.Errorf("listing addresses: %w", err)
	}
	for _, a := range addresses {
		if a.IP.Equal(own.AsSlice()) {
			link, err := k.handle.LinkByIndex(a.LinkIndex)
			if err != nil {
				return 0, fmt.Errorf("reading the link with the Node's address: %w", err)
			}
			return link.Attrs().MTU, nil
		}
	}
	return 0, fmt.Errorf("the Node's address %s is not an address of this host: its kubelet reports another one", own)
}

// state reads what belongs to this package.
func (k *kernel) state() (State, error) {
	s := State{Entries: map[Entry]bool{}}
	link, err := k.handle.LinkByName(network.Tunnel)
	if err != nil && !isMissing(err) {
		return s, fmt.Errorf("reading %s: %w", network.Tunnel, err)
	}
	if err == nil {
		s.Link = &Link{MTU: link.Attrs().MTU}
		if tunnel, is := link.(*netlink.Vxlan); is && wellMade(tunnel) {
			s.Link.Own, _ = netip.AddrFromSlice(tunnel.SrcAddr.To4())
			s.Link.V6 = takesIPv6()
		}
		if err := k.neighbors(link.Attrs().Index, s.Entries); err != nil {
			return s, err
		}
	}
	routes, err := list(func() ([]netlink.Route, error) {
		ours := &netlink.Route{Protocol: Protocol, Table: unix.RT_TABLE_UNSPEC}
		return k.handle.RouteListFiltered(netlink.FAMILY_ALL, ours, netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return s, fmt.Errorf("listing routes: %w", err)
	}
	for _, r := range routes {
		s.Entries[routeOf(r)] = true
	}
	rules, err := list(func() ([]netlink.Rule, error) { return k.handle.RuleList(unix.AF_INET) })
	if err != nil {
		return s, fmt.Errorf("listing rules: %w", err)
	}
	for _, r := range rules {
		if r.Protocol == Protocol && r.Src != nil {
			s.Entries[Rule{prefixOf(r.Src)}] = true
		}
	}
	return s, nil
}

// wellMade reports whether the link is as add creates it, apart from what differs between hosts.
func wellMade(l *netlink.Vxlan) bool {
	own, ok := netip.AddrFromSlice(l.SrcAddr.To4())
	return ok && l.VxlanId == vni && l.Port == network.TunnelPort && l.Learning && l.Attrs().Flags&net.FlagUp != 0 &&
		l.Attrs().HardwareAddr.String() == network.TunnelMAC(own).String()
}

func (k *kernel) neighbors(link int, into map[Entry]bool) error {
	for _, family := range []int{unix.AF_INET, unix.AF_INET6, unix.AF_BRIDGE} {
		all, err := list(func() ([]netlink.Neigh, error) { return k.handle.NeighList(link, family) })
		if err != nil {
			return fmt.Errorf("listing neighbors: %w", err)
		}
		for _, n := range all {
			to, ok := netip.AddrFromSlice(n.IP)
			switch {
			case !ok || n.State != unix.NUD_PERMANENT || n.LinkIndex != link:
			case family == unix.AF_BRIDGE:
				into[Forward{n.HardwareAddr.String(), to.Unmap()}] = true
			default:
				into[Neighbor{to, n.HardwareAddr.String()}] = true
			}
		}
	}
	return nil
}

// list reads a list, and reads it again if it changed during reading.
func list[T any](read func() ([]T, error)) ([]T, error) {
	for range dumpTries {
		all, err := read()
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			return all, err
		}
	}
	return nil, netlink.ErrDumpInterrupted
}

// change executes one step, which may have been executed before.
func (k *kernel) change(c Change) error {
	var err error
	switch {
	case c.Entry == nil && c.Remove:
		err = k.removeLink()
	case c.Entry == nil:
		err = k.addLink(*c.Link)
	default:
		err = k.entry(c.Entry, c.Remove)
	}
	if err != nil {
		return fmt.Errorf("routes to other Nodes: %s: %w", c, err)
	}
	return nil
}

func (k *kernel) removeLink() error {
	link, err := k.handle.LinkByName(network.Tunnel)
	if err == nil {
		err = k.handle.LinkDel(link)
	}
	if isMissing(err) {
		return nil
	}
	return err
}

func (k *kernel) addLink(l Link) error {
	link := &netlink.Vxlan{
		LinkAttrs: netlink.LinkAttrs{
			Name: network.Tunnel, MTU: l.MTU, HardwareAddr: network.TunnelMAC(l.Own), TxQLen: -1,
		},
		VxlanId: vni, SrcAddr: l.Own.AsSlice(), Port: network.TunnelPort, Learning: true, Age: forget,
	}
	if err := k.handle.LinkAdd(link); err != nil {
		if errors.Is(err, unix.EOPNOTSUPP) {
			return fmt.Errorf("%w: load the module as root: modprobe vxlan", err)
		}
		return err
	}
	disable6 := "1"
	if l.V6 {
		disable6 = "0"
	}
	for key, value := range map[string]string{
		"ipv4/conf/*/rp_filter":      "0",
		"ipv4/conf/*/send_redirects": "0",
		"ipv6/conf/*/addr_gen_mode":  "1",
		"ipv6/conf/*/accept_ra":      "0",
		"ipv6/conf/*/disable_ipv6":   disable6,
	} {
		if err := sysctl(key, value); err != nil {
			return err
		}
	}
	// Answers of pods behind a port of their Node arrive through the tunnel although the questions did not leave through
	// it. The kernel's reverse path check would drop these answers, because the tunnel has no address; the packet rules
	// check senders instead. The setting for all links also applies to each link.
	if err := os.WriteFile("/proc/sys/net/ipv4/conf/all/rp_filter", []byte("0"), 0); err != nil {
		return fmt.Errorf("turning off rp_filter: %w", err)
	}
	return k.handle.LinkSetUp(link)
}

// sysctl sets a key of the tunnel's link. A kernel without IPv6 lacks some keys.
func sysctl(key, value string) error {
	path, err := filepath.Glob(filepath.Join("/proc/sys/net", filepath.Dir(filepath.Dir(key)), network.Tunnel,
		filepath.Base(key)))
	if err != nil || len(path) == 0 {
		return err
	}
	if err := os.WriteFile(path[0], []byte(value), 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("setting %s: %w", path[0], err)
	}
	return nil
}

// takesIPv6 reports whether IPv6 is enabled on the tunnel's link.
func takesIPv6() bool {
	data, err := os.ReadFile("/proc/sys/net/ipv6/conf/" + network.Tunnel + "/disable_ipv6")
	return err == nil && len(data) > 0 && data[0] == '0'
}

func (k *kernel) entry(e Entry, remove bool) error {
	if rule, is := e.(Rule); is {
		r := netlink.NewRule()
		r.Family, r.Src, r.Table, r.Priority, r.Protocol = unix.AF_INET, ipNet(rule.From), nodesTable, nodesTable, Protocol
		return ignore(remove, func() error { return k.handle.RuleAdd(r) }, func() error { return k.handle.RuleDel(r) })
	}
	link, err := k.handle.LinkByName(network.Tunnel)
	if remove && isMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	index := link.Attrs().Index
	if route, is := e.(Route); is {
		r := &netlink.Route{
			LinkIndex: index, Dst: ipNet(route.To), Gw: route.Via.AsSlice(), Protocol: Protocol, Table: route.Table,
			Flags: int(netlink.FLAG_ONLINK),
		}
		if route.Src.IsValid() {
			r.Src = route.Src.AsSlice()
		}
		return ignore(remove, func() error { return k.handle.RouteReplace(r) },
			func() error { return k.handle.RouteDel(r) })
	}
	n := &netlink.Neigh{LinkIndex: index, State: unix.NUD_PERMANENT}
	mac := ""
	switch e := e.(type) {
	case Neighbor:
		n.IP, mac = e.Hop.AsSlice(), e.MAC
	case Forward:
		n.IP, mac, n.Family, n.Flags = e.To.AsSlice(), e.MAC, unix.AF_BRIDGE, unix.NTF_SELF
	}
	if n.HardwareAddr, err = net.ParseMAC(mac); err != nil {
		return err
	}
	return ignore(remove, func() error { return k.handle.NeighSet(n) }, func() error { return k.handle.NeighDel(n) })
}

// ignore calls add or del. It ignores an error which says that something already exists or is already gone.
func ignore(remove bool, add, del func() error) error {
	if !remove {
		if err := add(); !errors.Is(err, unix.EEXIST) {
			return err
		}
		return nil
	}
	err := del()
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EADDRNOTAVAIL) {
		return nil
	}
	return err
}

func isMissing(err error) bool {
	var notFound netlink.LinkNotFoundError
	return errors.As(err, &notFound) || errors.Is(err, unix.ENODEV)
}

func routeOf(r netlink.Route) Route {
	e := Route{To: prefixOf(r.Dst)}
	e.Via, _ = netip.AddrFromSlice(r.Gw)
	e.Src, _ = netip.AddrFromSlice(r.Src)
	e.Via, e.Src = e.Via.Unmap(), e.Src.Unmap()
	if r.Table != unix.RT_TABLE_MAIN {
		e.Table = r.Table
	}
	return e
}

func prefixOf(n *net.IPNet) netip.Prefix {
	if n == nil {
		return netip.Prefix{}
	}
	a, _ := netip.AddrFromSlice(n.IP)
	ones, bits := n.Mask.Size()
	if bits == 32 {
		a = a.Unmap()
	}
	return netip.PrefixFrom(a, ones)
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// Apply brings this thread's network namespace into the wanted state, once. It returns what it changed.
func Apply(want Wanted) ([]Change, error) {
	k, err := openKernel()
	if err != nil {
		return nil, err
	}
	defer k.close()
	return k.apply(want)
}

func (k *kernel) apply(want Wanted) ([]Change, error) {
	mtu, err := k.uplink(want.Own)
	if err != nil {
		return nil, err
	}
	have, err := k.state()
	if err != nil {
		return nil, err
	}
	// Rules first, so that the tunnel never accepts what it should not.
	if err := table.Apply(want.rules()); err != nil {
		return nil, err
	}
	changes := Diff(have, want.State(mtu))
	for i, c := range changes {
		if err := k.change(c); err != nil {
			return changes[:i], err
		}
	}
	return changes, nil
}

// Remove removes everything that Run created in this network namespace. It may be called again.
func Remove() error {
	k, err := openKernel()
	if err != nil {
		return err
	}
	defer k.close()
	have, err := k.state()
	if err != nil {
		return err
	}
	for _, c := range Diff(have, State{}) {
		if err := k.change(c); err != nil {
			return err
		}
	}
	return table.Remove(TableName)
}
