// Package routes maintains the routes from one Node to the pods of the other Nodes, in the network namespace of each
// host.
//
// The dock routes only hosts' addresses, not pods', because the pod ranges of different clusters may overlap. So
// packets between pods of two hosts travel inside UDP (VXLAN) from Node address to Node address. The cluster's own API
// server provides the Nodes and their ranges. A host accepts such packets only from Nodes of its own cluster, and from
// each Node only with source addresses of that Node's ranges.
package routes

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/kube/network"
	"github.com/capstan-dev/capstan/kube/network/table"
)

// Node is what a Node reports about its network.
type Node struct {
	Name    string
	Created time.Time
	Address netip.Addr     // its internal IPv4 address; invalid if unknown
	Ranges  []netip.Prefix // of its pods
}

// MaxNodes bounds the number of Nodes that a host has routes to.
const MaxNodes = 2000

// Peer is another Node with routes to its pods.
type Peer struct {
	Name    string
	Address netip.Addr
	Ranges  []netip.Prefix
}

// MAC returns the peer's MAC in the tunnel.
func (p Peer) MAC() net.HardwareAddr { return network.TunnelMAC(p.Address) }

// hop returns the next hop, within the tunnel, to the peer's pods of a family.
func (p Peer) hop(v6 bool) netip.Addr {
	if !v6 {
		return p.Address
	}
	a, b := [16]byte{0: 0xfe, 1: 0x80}, p.Address.As4()
	copy(a[12:], b[:])
	return netip.AddrFrom16(a)
}

// Wanted describes the wanted state of a host's network namespace.
type Wanted struct {
	Own    netip.Addr     // this Node's address
	Ranges []netip.Prefix // of this Node's pods
	Peers  []Peer         // sorted by name
}

// Refusal is the reason why some or all routes to a Node are missing.
type Refusal struct{ Node, Reason string }

func (r Refusal) String() string { return "Node " + r.Node + ": " + r.Reason }

// Plan decides what the Node self needs to reach the pods of all nodes. ok is false while self has no address yet. Plan
// refuses a Node's address or range if an older Node has it. It also refuses a range that is outside the ranges in
// pods. If pods is empty, any range is allowed.
func Plan(self string, pods []netip.Prefix, nodes []Node) (want Wanted, refused []Refusal, ok bool) {
	at := slices.IndexFunc(nodes, func(n Node) bool { return n.Name == self })
	if at < 0 || !nodes[at].Address.Is4() {
		return Wanted{}, nil, false
	}
	own := nodes[at]
	want = Wanted{Own: own.Address, Ranges: sorted(own.Ranges)}
	others := slices.DeleteFunc(slices.Clone(nodes), func(n Node) bool { return n.Name == self })
	slices.SortFunc(others, func(a, b Node) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Name, b.Name))
	})
	taken := claims{pods: pods, nodes: nodes, addresses: map[netip.Addr]string{own.Address: self}}
	for _, r := range own.Ranges {
		taken.ranges = append(taken.ranges, claim{r, self})
	}
	for _, n := range others {
		if !n.Address.IsValid() {
			continue // the Node has not come up yet
		}
		if reason := taken.address(n); reason != "" {
			refused = append(refused, Refusal{n.Name, reason})
			continue
		}
		if len(want.Peers) == MaxNodes {
			refused = append(refused, Refusal{n.Name, fmt.Sprintf("a host has routes to %d other Nodes at most", MaxNodes)})
			continue
		}
		p := Peer{Name: n.Name, Address: n.Address}
		taken.addresses[n.Address] = n.Name
		for _, r := range sorted(n.Ranges) {
			if reason := taken.span(r); reason != "" {
				refused = append(refused, Refusal{n.Name, reason})
				continue
			}
			taken.ranges = append(taken.ranges, claim{r, n.Name})
			p.Ranges = append(p.Ranges, r)
		}
		want.Peers = append(want.Peers, p)
	}
	slices.SortFunc(want.Peers, func(a, b Peer) int { return strings.Compare(a.Name, b.Name) })
	return want, refused, true
}

// claims records the addresses and ranges of Nodes.
type claims struct {
	pods      []netip.Prefix
	nodes     []Node
	addresses map[netip.Addr]string
	ranges    []claim
}

type claim struct {
	r    netip.Prefix
	node string
}

// address returns the reason why a Node can't have its address, or "".
func (c claims) address(n Node) string {
	a := n.Address
	switch {
	case !a.Is4() || !a.IsGlobalUnicast():
		return fmt.Sprintf("%s can't be the address of a Node", a)
	case c.addresses[a] != "":
		return fmt.Sprintf("its address %s is that of Node %s", a, c.addresses[a])
	}
	for _, other := range c.ranges {
		if other.r.Contains(a) {
			return fmt.Sprintf("its address %s belongs to the pods of Node %s", a, other.node)
		}
	}
	return ""
}

// The widest allowed ranges of one Node's pods. A wider one would be an attempt to capture all traffic.
const (
	widest4 = 8
	widest6 = 48
)

// span returns the reason why a Node can't have a range of pods, or "".
func (c claims) span(r netip.Prefix) string {
	widest := widest4
	if r.Addr().Is6() {
		widest = widest6
	}
	a := r.Addr()
	if r.Bits() < widest || !a.IsGlobalUnicast() {
		return fmt.Sprintf("%s can't be a range of pods", r)
	}
	within := func(p netip.Prefix) bool { return p.Bits() <= r.Bits() && p.Contains(a) }
	if len(c.pods) > 0 && !slices.ContainsFunc(c.pods, within) {
		return fmt.Sprintf("its range %s is outside the cluster's pod ranges", r)
	}
	for _, other := range c.ranges {
		if other.r.Overlaps(r) {
			return fmt.Sprintf("its range %s has addresses of %s, the range of Node %s", r, other.r, other.node)
		}
	}
	for _, n := range c.nodes {
		if n.Address.IsValid() && r.Contains(n.Address) {
			return fmt.Sprintf("its range %s has the address of Node %s", r, n.Name)
		}
	}
	return ""
}

func sorted(ranges []netip.Prefix) []netip.Prefix {
	all := slices.Clone(ranges)
	for i := range all {
		all[i] = all[i].Masked()
	}
	slices.SortFunc(all, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	return slices.Compact(all)
}

// Names and numbers of what this package owns in a namespace.
const (
	// TableName is the name of the table with its packet rules.
	TableName = "capstan-routes"
	// Protocol is the protocol number that marks its routes.
	Protocol = 202
	// nodesTable is the routing table for packets from pods to Nodes; other packets to Nodes take the direct route. The
	// same number is the priority of the rules that select this table.
	nodesTable = 1610

	peersSet, senders4, senders6 = "peers", "senders4", "senders6"
)

// rules returns the packet rules of a host.
func (w Wanted) rules() table.Table {
	peers := table.Set{Name: peersSet, Addresses: []netip.Addr{}}
	s4, s6 := table.Set{Name: senders4}, table.Set{Name: senders6, V6: true}
	for _, p := range w.Peers {
		peers.Addresses = append(peers.Addresses, p.Address)
		s4.Senders = append(s4.Senders, table.Sender{MAC: p.MAC(), From: netip.PrefixFrom(p.Address, 32)})
		for _, r := range p.Ranges {
			set := &s4
			if r.Addr().Is6() {
				set = &s6
			}
			set.Senders = append(set.Senders, table.Sender{MAC: p.MAC(), From: r})
		}
	}
	tunnelled := table.Port(table.UDP, network.TunnelPort)
	notByPod, unpacked := table.NotIn(network.Links+"*"), table.In(network.Tunnel)
	return table.Table{
		Name: TableName, Sets: []table.Set{peers, s4, s6},
		Chains: []table.Chain{
			{Name: "unpacked", Hook: table.Prerouting, Priority: table.Raw, Rules: []table.Rule{
				{unpacked, table.SenderIn(senders4, false), table.Accept},
				{unpacked, table.SenderIn(senders6, true), table.Accept},
				{unpacked, table.Drop},
				{notByPod, tunnelled, table.FromAny(peersSet), table.ToLocal(), table.Untracked},
			}},
			{Name: "packed", Hook: table.Input, Priority: table.Filter, Rules: []table.Rule{
				{notByPod, tunnelled, table.FromAny(peersSet), table.Accept},
				{tunnelled, table.Drop},
			}},
			{Name: "leaving", Hook: table.Output, Priority: table.Raw, Rules: []table.Rule{
				{tunnelled, table.From(netip.PrefixFrom(w.Own, 32)), table.Untracked},
			}},
		},
	}
}
