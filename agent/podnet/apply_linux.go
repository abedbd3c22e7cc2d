package podnet

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/agent/internal/podroute"
	"github.com/capstan-dev/capstan/internal/atomicfile"
)

// The tunnel's network identifier, and VXLAN's port.
const (
	vni        = 1
	tunnelPort = 4789
)

// Segments returns the networks of this address, which the computer reaches without a router, and the link that has the
// address.
func Segments(address netip.Addr) (segments []netip.Prefix, link netlink.Link, err error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, nil, fmt.Errorf("listing links: %w", err)
	}
	for _, l := range links {
		addresses, err := netlink.AddrList(l, netlink.FAMILY_V4)
		if err != nil {
			return nil, nil, fmt.Errorf("listing addresses: %w", err)
		}
		for _, a := range addresses {
			prefix, ok := prefixOf(a.IPNet)
			if !ok || prefix.Addr() != address {
				continue // Nodes reach each other only at Node addresses, so other networks don't matter
			}
			segments, link = append(segments, prefix.Masked()), l
		}
	}
	if link == nil {
		return nil, nil, fmt.Errorf("this computer does not have the Node's address %s", address)
	}
	return segments, link, nil
}

func prefixOf(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	address, ok := netip.AddrFromSlice(n.IP)
	ones, _ := n.Mask.Size()
	return netip.PrefixFrom(address.Unmap(), ones), ok
}

// Apply configures this computer as desired. The link own has the Node's address; pods is the range of all pods.
func (d *Desired) Apply(own netlink.Link, pods netip.Prefix) error {
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return fmt.Errorf("forwarding packets of pods: %w", err)
	}
	tunnel, err := d.tunnel(own)
	if err != nil {
		return fmt.Errorf("the tunnel to other Nodes: %w", err)
	}
	if err := d.routes(own, tunnel); err != nil {
		return fmt.Errorf("routes to other Nodes: %w", err)
	}
	if err := masquerade(d.Self.Range, pods); err != nil {
		return fmt.Errorf("the packet filter: %w", err)
	}
	text, err := d.Config(own.Attrs().MTU)
	if err != nil {
		return err
	}
	if before, err := os.ReadFile(ConfigPath); err == nil && bytes.Equal(before, text) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(ConfigPath), 0o755); err != nil {
		return fmt.Errorf("writing the configuration of the pod network: %w", err)
	}
	return atomicfile.Write(ConfigPath, text, 0o644)
}

// tunnel creates or removes the tunnel's link. It returns the link with all its peers, or nil if no tunnel is needed.
func (d *Desired) tunnel(own netlink.Link) (netlink.Link, error) {
	there, err := netlink.LinkByName(Tunnel)
	var missing netlink.LinkNotFoundError
	if err != nil && !errors.As(err, &missing) {
		return nil, err
	}
	if !d.Tunneled() {
		if err == nil {
			return nil, netlink.LinkDel(there)
		}
		return nil, nil
	}
	want := &netlink.Vxlan{
		LinkAttrs: netlink.LinkAttrs{
			Name: Tunnel, MTU: own.Attrs().MTU - headers, HardwareAddr: MAC(d.Self.Address),
		},
		VxlanId: vni, Port: tunnelPort, SrcAddr: d.Self.Address.AsSlice(), VtepDevIndex: own.Attrs().Index,
	}
	if v, is := there.(*netlink.Vxlan); err == nil && (!is || !bytes.Equal(v.HardwareAddr, want.HardwareAddr) ||
		v.VtepDevIndex != want.VtepDevIndex || v.MTU != want.MTU) {
		if err := netlink.LinkDel(there); err != nil {
			return nil, err
		}
		err = missing
		there = nil
	}
	if there == nil {
		if err := netlink.LinkAdd(want); err != nil {
			return nil, err
		}
		if there, err = netlink.LinkByName(Tunnel); err != nil {
			return nil, err
		}
	}
	// The Node's own packets to pods in other segments have this source address.
	address := &netlink.Addr{IPNet: single(d.Self.Range.Masked().Addr())}
	if err := netlink.AddrReplace(there, address); err != nil {
		return nil, err
	}
	if err := netlink.LinkSetUp(there); err != nil {
		return nil, err
	}
	return there, d.peers(there)
}

func single(a netip.Addr) *net.IPNet {
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
}

// peers tells the kernel where the Nodes of other segments are, so that the kernel need not ask other computers, which
// might lie.
func (d *Desired) peers(tunnel netlink.Link) error {
	index := tunnel.Attrs().Index
	known := map[string]bool{}
	var errs []error
	for _, r := range d.Routes {
		if !r.Tunneled {
			continue
		}
		known[r.Via.String()] = true
		mac := MAC(r.Via)
		errs = append(errs,
			netlink.NeighSet(&netlink.Neigh{LinkIndex: index, State: netlink.NUD_PERMANENT, Family: unix.AF_BRIDGE,
				Flags: netlink.NTF_SELF, IP: r.Via.AsSlice(), HardwareAddr: mac}),
			netlink.NeighSet(&netlink.Neigh{LinkIndex: index, State: netlink.NUD_PERMANENT, Family: unix.AF_INET,
				IP: r.Via.AsSlice(), HardwareAddr: mac}))
	}
	for _, family := range []int{unix.AF_BRIDGE, unix.AF_INET} {
		all, err := netlink.NeighList(index, family)
		errs = append(errs, err)
		for _, n := range all {
			if n.State&netlink.NUD_PERMANENT != 0 && n.IP != nil && !known[n.IP.String()] {
				errs = append(errs, netlink.NeighDel(&n))
			}
		}
	}
	return errors.Join(errs...)
}

// routes makes our routes exactly the desired ones.
func (d *Desired) routes(own, tunnel netlink.Link) error {
	wanted := map[string]bool{}
	for _, r := range d.Routes {
		wanted[r.To.Masked().String()] = true
		route := &netlink.Route{
			Dst: &net.IPNet{IP: r.To.Masked().Addr().AsSlice(), Mask: net.CIDRMask(r.To.Bits(), 32)},
			Gw:  r.Via.AsSlice(), Protocol: podroute.Protocol, LinkIndex: own.Attrs().Index,
		}
		if r.Tunneled {
			route.LinkIndex = tunnel.Attrs().Index
			route.SetFlag(netlink.FLAG_ONLINK)
		}
		if err := netlink.RouteReplace(route); err != nil {
			return fmt.Errorf("to %s by %s: %w", r.To, r.Via, err)
		}
	}
	ours, err := podroute.List()
	errs := []error{err}
	for _, r := range ours {
		if r.Dst != nil && !wanted[r.Dst.String()] {
			errs = append(errs, netlink.RouteDel(&r))
		}
	}
	return errors.Join(errs...)
}
