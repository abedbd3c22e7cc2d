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
	// MakeVeth creates a veth pair. The link called name is in this namespace, and the link called peer is in the
	// network namespace at the path space. MakeVeth first deletes an existing link called name, which is a leftover.
	MakeVeth(name string, mac net.HardwareAddr, peer string, peerMAC net.HardwareAddr, mtu int, space string) error
	// EnsureAddress adds an address to a link, and DeleteAddress removes it.
	EnsureAddress(link string, address netip.Addr) error
	DeleteAddress(link string, address netip.Addr) error
	// EnsureNeighbor permanently sets the MAC to which a link sends packets for an address.
	EnsureNeighbor(link string, address netip.Addr, mac net.HardwareAddr) error
	// EnsureRoute adds a route to the range dst through a link. If source is valid, it becomes the source address. The
	// next hop is via; if via is the zero Addr, the destinations are on the link itself.
	EnsureRoute(link string, dst netip.Prefix, via, source netip.Addr) error
	// SetUp brings a link up.
	SetUp(link string) error
	// AwaitRunning waits until a link carries packets: after both ends came up, the kernel still drops them for a
	// while.
	AwaitRunning(link string) error
	// AwaitLocal waits until the kernel accepts packets for an address. For IPv6, that takes a while after the address
	// was added.
	AwaitLocal(address netip.Addr) error
	// DeleteLink deletes a link if it exists.
	DeleteLink(name string) error
	// SetSysctl writes value to /proc/sys/net/KEY. If optional is true, it ignores a key that the kernel lacks.
	SetSysctl(key, value string, optional bool) error
}

// Apply executes the steps in order and stops at the first that fails.
func Apply(k Kernel, plan []Op) error {
	for _, op := range plan {
		if err := op.apply(k); err != nil {
			return fmt.Errorf("pod network: %s: %w", op, err)
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

// Names of links.
const (
	loopback  = "lo"
	podLink   = "eth0" // in the pod
	linkStart = Links + "-"
	linkBytes = 11 // of the sandbox's id; with the prefix, the longest name that Linux allows
)

// LinkName returns the name of the host's end of a pod's cable.
func LinkName(id string) string { return linkStart + id[:min(linkBytes, len(id))] }

// hostMAC and podMAC derive MACs from a pod's first address, so that no lookup is needed.
func hostMAC(a netip.Addr) net.HardwareAddr { return mac(0xcc, a) }
func podMAC(a netip.Addr) net.HardwareAddr  { return mac(0xcd, a) }

func mac(kind byte, a netip.Addr) net.HardwareAddr {
	b := a.AsSlice()
	return append(net.HardwareAddr{0x02, kind}, b[len(b)-4:]...)
}

func single(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// defaultRoute returns the default destination of an address's family.
func defaultRoute(a netip.Addr) netip.Prefix {
	if a.Is4() {
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
}

// Source returns the address from which the host sends to pods of the range r. For IPv4, Source returns node, which is
// the host's own address. This is for servers of the host that listen on all addresses: if a pod calls such a server at
// the host's own address, the answer comes from that address, too. If the host has no address of the family, as for
// IPv6 in a dock, Source returns the gateway's address.
func Source(r netip.Prefix, node netip.Addr) netip.Addr {
	if r.Addr().Is4() && node.IsValid() {
		return node
	}
	return Gateway(r)
}

// PlanHost plans what the host's namespace needs for pods of these ranges. The gateways' addresses are on the loopback
// interface, because pods' cables come and go, and not every kernel supports dummy links.
//
// The host refuses every packet to a port or Service that nobody serves. By default, Linux refuses only one packet per
// second of a sender, and drops the others without an answer. A DNS client that asks while no CoreDNS pod is Ready
// would wait five seconds for each dropped question. The limit for all senders together, icmp_msgs_per_sec, remains.
func PlanHost(ranges []netip.Prefix, node netip.Addr) []Op {
	plan := []Op{
		sysctl{"ipv4/ip_forward", "1", false},
		sysctl{"ipv4/icmp_ratelimit", "0", true},
		sysctl{"ipv6/icmp/ratelimit", "0", true},
	}
	for _, r := range ranges {
		if r.Addr().Is6() {
			plan = append(plan,
				sysctl{"ipv6/conf/" + loopback + "/disable_ipv6", "0", false},
				sysctl{"ipv6/conf/all/forwarding", "1", false},
			)
		}
		if source := Source(r, node); source != node {
			plan = append(plan, address{loopback, source}, local{source})
		}
	}
	return append(plan, up{loopback})
}

// PlanNoRange plans the removal of what a host has for a range that is no longer its own.
func PlanNoRange(r netip.Prefix) []Op { return []Op{noAddress{loopback, Gateway(r)}} }

// Pod is a pod with a network.
type Pod struct {
	ID        string
	Space     string       // the path of its network namespace
	Addresses []netip.Addr // one, or one of each family
	Gateways  []netip.Addr // for each address: the next hop of everything that the pod sends
	Sources   []netip.Addr // for each address: the host's source address towards it
	Ports     []HostPort   // ports of the host that lead to the pod
}

// PlanCable plans the cable to a pod, in the host's namespace.
func PlanCable(p Pod, mtu int) []Op {
	link, host, pod := LinkName(p.ID), hostMAC(p.Addresses[0]), podMAC(p.Addresses[0])
	plan := []Op{
		veth{link, host, podLink, pod, mtu, p.Space},
		sysctl{"ipv4/conf/" + link + "/send_redirects", "0", true},
		sysctl{"ipv6/conf/" + link + "/addr_gen_mode", "1", true},
		sysctl{"ipv6/conf/" + link + "/accept_ra", "0", true},
		sysctl{"ipv6/conf/" + link + "/disable_ipv6", off(hasIPv6(p)), !hasIPv6(p)},
	}
	if len(p.Ports) > 0 { // the host can reach the pod's ports at 127.0.0.1, too
		plan = append(plan, sysctl{"ipv4/conf/" + link + "/route_localnet", "1", false})
	}
	for _, a := range p.Addresses {
		plan = append(plan, neighbor{link, a, pod})
	}
	plan = append(plan, up{link})
	for i, a := range p.Addresses {
		plan = append(plan, route{link, single(a), netip.Addr{}, p.Sources[i]})
	}
	return plan
}

// PlanPod plans the pod's own namespace. Apply it inside that namespace, after PlanCable.
func PlanPod(p Pod) []Op {
	host := hostMAC(p.Addresses[0])
	plan := []Op{
		up{loopback},
		sysctl{"ipv6/conf/" + podLink + "/addr_gen_mode", "1", true},
		sysctl{"ipv6/conf/" + podLink + "/accept_ra", "0", true},
		sysctl{"ipv6/conf/" + podLink + "/disable_ipv6", off(hasIPv6(p)), !hasIPv6(p)},
	}
	for _, a := range p.Addresses {
		plan = append(plan, address{podLink, a})
	}
	for _, g := range p.Gateways {
		plan = append(plan, neighbor{podLink, g, host})
	}
	plan = append(plan, up{podLink})
	for i, g := range p.Gateways {
		plan = append(plan,
			route{podLink, single(g), netip.Addr{}, p.Addresses[i]},
			route{podLink, defaultRoute(g), g, netip.Addr{}},
		)
	}
	for _, a := range p.Addresses {
		plan = append(plan, local{a})
	}
	return append(plan, running{podLink})
}

// PlanRunning plans the last step, in the host's namespace: waiting until the cable carries packets.
func PlanRunning(id string) []Op { return []Op{running{LinkName(id)}} }

// PlanNoCable plans the removal of the cable to a pod. All routes and neighbors on the cable disappear with it.
func PlanNoCable(id string) []Op { return []Op{deleteLink{LinkName(id)}} }

func hasIPv6(p Pod) bool {
	for _, a := range p.Addresses {
		if a.Is6() {
			return true
		}
	}
	return false
}

// off returns the value of a "disable" setting: "0" if the feature is wanted, else "1".
func off(wanted bool) string {
	if wanted {
		return "0"
	}
	return "1"
}

type (
	veth struct {
		name    string
		mac     net.HardwareAddr
		peer    string
		peerMAC net.HardwareAddr
		mtu     int
		space   string
	}
	address struct {
		link    string
		address netip.Addr
	}
	noAddress address
	neighbor  struct {
		link    string
		address netip.Addr
		mac     net.HardwareAddr
	}
	route struct {
		link        string
		to          netip.Prefix
		via, source netip.Addr
	}
	up         struct{ link string }
	running    struct{ link string }
	local      struct{ address netip.Addr }
	deleteLink struct{ name string }
	sysctl     struct {
		key, value string
		optional   bool
	}
)

func (o veth) String() string {
	return fmt.Sprintf("veth %s mac %s, peer %s mac %s in %s, mtu %d", o.name, o.mac, o.peer, o.peerMAC, o.space, o.mtu)
}
func (o address) String() string   { return fmt.Sprintf("address %s on %s", o.address, o.link) }
func (o noAddress) String() string { return fmt.Sprintf("no address %s on %s", o.address, o.link) }
func (o neighbor) String() string {
	return fmt.Sprintf("neighbor %s at %s on %s", o.address, o.mac, o.link)
}

func (o route) String() string {
	text := "route to " + o.to.String()
	if o.via.IsValid() {
		text += " via " + o.via.String()
	}
	text += " on " + o.link
	if o.source.IsValid() {
		text += " from " + o.source.String()
	}
	return text
}
func (o up) String() string         { return "up " + o.link }
func (o local) String() string      { return "here is " + o.address.String() }
func (o running) String() string    { return "running " + o.link }
func (o deleteLink) String() string { return "no link " + o.name }
func (o sysctl) String() string     { return fmt.Sprintf("sysctl net/%s = %s", o.key, o.value) }

func (o veth) apply(k Kernel) error {
	return k.MakeVeth(o.name, o.mac, o.peer, o.peerMAC, o.mtu, o.space)
}
func (o address) apply(k Kernel) error    { return k.EnsureAddress(o.link, o.address) }
func (o noAddress) apply(k Kernel) error  { return k.DeleteAddress(o.link, o.address) }
func (o neighbor) apply(k Kernel) error   { return k.EnsureNeighbor(o.link, o.address, o.mac) }
func (o route) apply(k Kernel) error      { return k.EnsureRoute(o.link, o.to, o.via, o.source) }
func (o up) apply(k Kernel) error         { return k.SetUp(o.link) }
func (o local) apply(k Kernel) error      { return k.AwaitLocal(o.address) }
func (o running) apply(k Kernel) error    { return k.AwaitRunning(o.link) }
func (o deleteLink) apply(k Kernel) error { return k.DeleteLink(o.name) }
func (o sysctl) apply(k Kernel) error     { return k.SetSysctl(o.key, o.value, o.optional) }
