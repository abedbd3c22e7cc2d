package network

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// Op is one step of a plan. It is idempotent, so a plan that failed halfway can be applied again.
type Op interface {
	fmt.Stringer
	apply(Kernel) error
}

// Kernel is the kernel's side of one network namespace, which a plan changes. All calls are idempotent.
type Kernel interface {
	// EnsureBridge creates a bridge with this MAC.
	EnsureBridge(name string, mac net.HardwareAddr) error
	// MakeVeth creates a veth pair. The link called name is in this namespace and up. The link called peer has this MAC
	// and is in the network namespace of process pid. MakeVeth first deletes an existing link called name, which is a
	// leftover.
	MakeVeth(name, peer string, mac net.HardwareAddr, pid int) error
	// EnsureAddress adds an address to a link.
	EnsureAddress(link string, prefix netip.Prefix) error
	// DeleteAddress removes an address from a link; the address or the link may be missing.
	DeleteAddress(link string, prefix netip.Prefix) error
	// SetUp brings a link up.
	SetUp(link string) error
	// EnsureRoute adds a route to the range dst through a link, with source as the source address. The next hop is via, at
	// the other end of the link; if via is the zero Addr, the destinations are on the link itself.
	EnsureRoute(link string, dst netip.Prefix, via, source netip.Addr) error
	// EnsureDefaultRoute routes everything else through gateway, at the other end of the link.
	EnsureDefaultRoute(link string, gateway netip.Addr) error
	// DeleteLink deletes a link; it may be missing.
	DeleteLink(name string) error
	// SetSysctl writes value to /proc/sys/net/KEY. If optional is true, it ignores a key that the kernel lacks.
	SetSysctl(key, value string, optional bool) error
}

// Apply executes the steps in order and stops at the first that fails.
func Apply(k Kernel, plan []Op) error {
	for _, op := range plan {
		if err := op.apply(k); err != nil {
			return fmt.Errorf("network: %s: %w", op, err)
		}
	}
	return nil
}

// Text returns the plan as text, one line for each step.
func Text(plan []Op) string {
	var b strings.Builder
	for _, op := range plan {
		b.WriteString(op.String() + "\n")
	}
	return b.String()
}

// PlanDock plans the dock's own namespace. Each host has its own cable to the dock, which routes between hosts. So a
// host can neither see another host's traffic nor answer in another host's place. The bridge has no ports; it only
// holds the dock's addresses.
func PlanDock() []Op {
	plan := common()
	for _, link := range []string{"all", "default"} { // links created later inherit the default
		plan = append(plan,
			// Drop packets from a host unless their source address is routed to that host.
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

// PlanLink plans, in the dock's namespace, the cable to the host with address a. pid is the host's first process. Only
// the host's own address is routed to it, so the host can't send from any other address.
func PlanLink(a netip.Addr, pid int) []Op {
	return []Op{
		veth{LinkName(a), HostLink, MAC(a), pid},
		path{LinkName(a), netip.PrefixFrom(a, a.BitLen()), netip.Addr{}, Gateway},
	}
}

// PlanUnlink plans the removal of the cable that PlanLink planned. Apply it only after all processes of the host have
// ended: a namespace in use keeps its end of the cable.
func PlanUnlink(a netip.Addr) []Op { return []Op{deleteLink{LinkName(a)}} }

// PlanHost plans the namespace of the host with address a. Apply it inside that namespace, after PlanLink.
func PlanHost(a netip.Addr) []Op {
	return append(common(),
		sysctl{"ipv6/conf/" + HostLink + "/disable_ipv6", "1", true}, // the link is older than the default above
		address{HostLink, netip.PrefixFrom(a, a.BitLen())},           // other hosts are behind the gateway
		up{HostLink},
		route{HostLink, Gateway},
	)
}

// PlanBalancer plans a further address on the bridge, for a balancer.
func PlanBalancer(a netip.Addr) []Op { return []Op{address{Bridge, netip.PrefixFrom(a, 32)}} }

// PlanNoBalancer plans the removal of a balancer's address.
func PlanNoBalancer(a netip.Addr) []Op { return []Op{noAddress{Bridge, netip.PrefixFrom(a, 32)}} }

// common returns the first steps in every namespace. kubeadm requires ip_forward. IPv6 is off on new links: hosts do
// not use it among themselves, and without router solicitations and duplicate address detection an idle cable stays
// silent. Loopback keeps its IPv6 address.
//
// Every packet to a port that nobody serves is refused. By default, Linux refuses only one per second of a sender. In a
// dock without a way out, no DNS server answers the questions that CoreDNS forwards, and a question that is not refused
// fails only after seconds.
func common() []Op {
	return []Op{
		sysctl{"ipv4/ip_forward", "1", false},
		sysctl{"ipv4/icmp_ratelimit", "0", true},
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
