package network

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// Op is one step of a plan. Each is idempotent, so a plan can be applied again after it failed half way.
type Op interface {
	fmt.Stringer
	apply(Kernel) error
}

// Kernel is what a plan changes: one network namespace. Each call is idempotent.
type Kernel interface {
	// EnsureBridge makes a bridge with this MAC.
	EnsureBridge(name string, mac net.HardwareAddr) error
	// MakeVeth makes a pair: name here and up, and peer, with this MAC, in the network namespace of process pid. A link
	// called name that exists already is a leftover, and is deleted first.
	MakeVeth(name, peer string, mac net.HardwareAddr, pid int) error
	// EnsureAddress adds an address to a link.
	EnsureAddress(link string, prefix netip.Prefix) error
	// DeleteAddress removes an address from a link; it or the link may be missing.
	DeleteAddress(link string, prefix netip.Prefix) error
	// SetUp brings a link up.
	SetUp(link string) error
	// EnsureRoute sends what is for addresses of to through a link, from the address source: to via at the other end of
	// the link, or to the address itself if via is the zero Addr.
	EnsureRoute(link string, to netip.Prefix, via, source netip.Addr) error
	// EnsureDefaultRoute routes all else through gateway, which is at the other end of the link.
	EnsureDefaultRoute(link string, gateway netip.Addr) error
	// DeleteLink deletes a link; it may be missing.
	DeleteLink(name string) error
	// SetSysctl writes value to /proc/sys/net/KEY. Where optional, a kernel without that key is no error.
	SetSysctl(key, value string, optional bool) error
}

// Apply does the steps in order and stops at the first that fails.
func Apply(k Kernel, plan []Op) error {
	for _, op := range plan {
		if err := op.apply(k); err != nil {
			return fmt.Errorf("network: %s: %w", op, err)
		}
	}
	return nil
}

// Text is the plan, one line for each step.
func Text(plan []Op) string {
	var b strings.Builder
	for _, op := range plan {
		b.WriteString(op.String() + "\n")
	}
	return b.String()
}

// PlanDock plans the dock's own namespace. Hosts are not on a bridge: each has a cable of its own to the dock, which is
// their router. So none sees what another sends, and none can answer for another. The bridge has no ports; it holds the
// dock's addresses.
func PlanDock() []Op {
	plan := common()
	for _, link := range []string{"all", "default"} { // links that are made later take over what the default is
		plan = append(plan,
			// What comes from a host and is not from an address that is routed to it is dropped.
			sysctl{"ipv4/conf/" + link + "/rp_filter", "1", false},
			sysctl{"ipv4/conf/" + link + "/accept_redirects", "0", true},
			sysctl{"ipv4/conf/" + link + "/accept_source_route", "0", true},
		)
	}
	return append(plan,
		bridge{Bridge, MAC(Gateway)},
		address{Bridge, netip.PrefixFrom(Gateway, Gateway.BitLen())},
		up{Bridge},
	)
}

// PlanLink plans, in the dock's namespace, the cable to the host with address a whose first process is pid. Its address
// is all that is routed to the host, and so all that it may send from.
func PlanLink(a netip.Addr, pid int) []Op {
	return []Op{
		veth{LinkName(a), HostLink, MAC(a), pid},
		path{LinkName(a), netip.PrefixFrom(a, a.BitLen()), netip.Addr{}, Gateway},
	}
}

// PlanRange plans, in the dock's namespace, that a range belongs to the host with address a, too: that of its pods, or
// one address that it holds for others.
func PlanRange(a netip.Addr, r netip.Prefix) []Op { return []Op{path{LinkName(a), r, a, Gateway}} }

// PlanUnlink plans to remove that cable. Apply it when all processes of the host have ended: a namespace that is in use
// keeps its end.
func PlanUnlink(a netip.Addr) []Op { return []Op{deleteLink{LinkName(a)}} }

// PlanHost plans the namespace of the host with address a, from within it and after PlanLink.
func PlanHost(a netip.Addr) []Op {
	return append(common(),
		sysctl{"ipv6/conf/" + HostLink + "/disable_ipv6", "1", true}, // the link is older than the default above
		address{HostLink, netip.PrefixFrom(a, a.BitLen())},           // other hosts are behind the gateway
		up{HostLink},
		route{HostLink, Gateway},
	)
}

// PlanBalancer plans a further address on the bridge.
func PlanBalancer(a netip.Addr) []Op { return []Op{address{Bridge, netip.PrefixFrom(a, 32)}} }

// PlanNoBalancer plans to remove that address.
func PlanNoBalancer(a netip.Addr) []Op { return []Op{noAddress{Bridge, netip.PrefixFrom(a, 32)}} }

// common is first in each namespace: kubeadm wants ip_forward; without router solicitations and duplicate address
// detection an idle cable stays silent, and IPv6 leads from no host to another (loopback keeps its IPv6 address).
func common() []Op {
	return []Op{
		sysctl{"ipv4/ip_forward", "1", false},
		sysctl{"ipv6/conf/default/disable_ipv6", "1", true},
		up{"lo"},
	}
}

type (
	bridge struct {
		name string
		mac  net.HardwareAddr
	}
	veth struct {
		name, peer string
		mac        net.HardwareAddr
		pid        int
	}
	address struct {
		link   string
		prefix netip.Prefix
	}
	noAddress  address
	up         struct{ link string }
	deleteLink struct{ name string }
	path       struct {
		link        string
		to          netip.Prefix
		via, source netip.Addr
	}
	route struct {
		link    string
		gateway netip.Addr
	}
	sysctl struct {
		key, value string
		optional   bool
	}
)

func (o bridge) String() string { return fmt.Sprintf("bridge %s mac %s", o.name, o.mac) }
func (o veth) String() string {
	return fmt.Sprintf("veth %s, peer %s mac %s in process %d", o.name, o.peer, o.mac, o.pid)
}
func (o address) String() string   { return fmt.Sprintf("address %s on %s", o.prefix, o.link) }
func (o noAddress) String() string { return fmt.Sprintf("no address %s on %s", o.prefix, o.link) }
func (o up) String() string        { return "up " + o.link }
func (o path) String() string {
	via := ""
	if o.via.IsValid() {
		via = " via " + o.via.String()
	}
	return fmt.Sprintf("route to %s%s on %s from %s", o.to, via, o.link, o.source)
}
func (o deleteLink) String() string { return "no link " + o.name }
func (o route) String() string      { return fmt.Sprintf("default route via %s on %s", o.gateway, o.link) }
func (o sysctl) String() string     { return fmt.Sprintf("sysctl net/%s = %s", o.key, o.value) }

func (o bridge) apply(k Kernel) error     { return k.EnsureBridge(o.name, o.mac) }
func (o veth) apply(k Kernel) error       { return k.MakeVeth(o.name, o.peer, o.mac, o.pid) }
func (o address) apply(k Kernel) error    { return k.EnsureAddress(o.link, o.prefix) }
func (o noAddress) apply(k Kernel) error  { return k.DeleteAddress(o.link, o.prefix) }
func (o up) apply(k Kernel) error         { return k.SetUp(o.link) }
func (o path) apply(k Kernel) error       { return k.EnsureRoute(o.link, o.to, o.via, o.source) }
func (o deleteLink) apply(k Kernel) error { return k.DeleteLink(o.name) }
func (o route) apply(k Kernel) error      { return k.EnsureDefaultRoute(o.link, o.gateway) }
func (o sysctl) apply(k Kernel) error     { return k.SetSysctl(o.key, o.value, o.optional) }
