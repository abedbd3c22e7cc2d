package routes

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/kube/network"
)

// Link is the tunnel's link.
type Link struct {
	Own netip.Addr // the Node's address
	MTU int
	V6  bool // whether the tunnel also carries IPv6
}

// Entry is one object in the kernel that this package owns, other than the link.
type Entry interface {
	fmt.Stringer
	rank() int // entries of a lower rank are added earlier and removed later
}

// Neighbor is the MAC of a next hop in the tunnel.
type Neighbor struct {
	Hop netip.Addr
	MAC string
}

// Forward is the Node to which packets for a MAC are sent.
type Forward struct {
	MAC string
	To  netip.Addr
}

// Route leads to a range of pods or, for packets from pods, to a Node.
type Route struct {
	To       netip.Prefix
	Via, Src netip.Addr // Src may be invalid
	Table    int        // 0 means the main routing table
}

// Rule sends packets from a range of this host's pods to the routing table of Nodes.
type Rule struct{ From netip.Prefix }

func (e Neighbor) rank() int { return 0 }
func (e Forward) rank() int  { return 1 }
func (e Route) rank() int    { return 2 }
func (e Rule) rank() int     { return 3 }

func (e Neighbor) String() string { return fmt.Sprintf("neighbor %s at %s", e.Hop, e.MAC) }
func (e Forward) String() string  { return fmt.Sprintf("packets for %s to %s", e.MAC, e.To) }
func (e Rule) String() string     { return fmt.Sprintf("rule from %s table %d", e.From, nodesTable) }

func (e Route) String() string {
	text := fmt.Sprintf("route to %s via %s", e.To, e.Via)
	if e.Src.IsValid() {
		text += fmt.Sprintf(" from %s", e.Src)
	}
	if e.Table != 0 {
		text += fmt.Sprintf(" table %d", e.Table)
	}
	return text
}

// State is the actual or wanted state of a namespace. Link is nil without a tunnel.
type State struct {
	Link    *Link
	Entries map[Entry]bool
}

// State returns the wanted state of the namespace if the host's own link has this MTU.
func (w Wanted) State(mtu int) State {
	s := State{Link: &Link{Own: w.Own, MTU: mtu - network.TunnelHeaders}, Entries: map[Entry]bool{}}
	for _, r := range w.Ranges {
		s.Link.V6 = s.Link.V6 || r.Addr().Is6()
		if r.Addr().Is4() {
			s.Entries[Rule{r}] = true
		}
	}
	for _, p := range w.Peers {
		mac := p.MAC().String()
		s.Entries[Neighbor{p.hop(false), mac}] = true
		s.Entries[Forward{mac, p.Address}] = true
		s.Entries[Route{To: netip.PrefixFrom(p.Address, 32), Via: p.Address, Table: nodesTable}] = true
		for _, r := range p.Ranges {
			v6 := r.Addr().Is6()
			if v6 && !s.Link.V6 {
				continue // this Node has no address of the family to send from
			}
			route := Route{To: r, Via: p.hop(v6)}
			if v6 {
				s.Entries[Neighbor{route.Via, mac}] = true
			} else {
				route.Src = w.Own
			}
			s.Entries[route] = true
		}
	}
	return s
}

// Change is one step from one state to another.
type Change struct {
	Remove bool
	Link   *Link // set if the step is about the link; nil if it is about an entry
	Entry  Entry
}

func (c Change) String() string {
	word, what := "add", ""
	if c.Remove {
		word = "remove"
	}
	switch {
	case c.Entry != nil:
		what = c.Entry.String()
	case c.Link != nil:
		what = fmt.Sprintf("link %s from %s mtu %d v6 %t", network.Tunnel, c.Link.Own, c.Link.MTU, c.Link.V6)
	default:
		what = "link " + network.Tunnel
	}
	return word + " " + what
}

// Diff returns the steps from the state have to the state want. It leaves alone what is in both.
func Diff(have, want State) []Change {
	var changes []Change
	kept := have.Entries
	if have.Link != nil && (want.Link == nil || *have.Link != *want.Link) {
		changes = append(changes, Change{Remove: true})
		kept = map[Entry]bool{} // everything else disappears with the link
		for e := range have.Entries {
			if _, is := e.(Rule); is {
				kept[e] = true
			}
		}
	}
	for _, e := range ordered(kept, want.Entries, true) {
		changes = append(changes, Change{Remove: true, Entry: e})
	}
	if want.Link != nil && (have.Link == nil || *have.Link != *want.Link) {
		changes = append(changes, Change{Link: want.Link})
	}
	for _, e := range ordered(want.Entries, kept, false) {
		changes = append(changes, Change{Entry: e})
	}
	return changes
}

// ordered returns the candidates that are not omitted, by ascending rank, or by descending rank if reverse is true.
func ordered(candidates, omitted map[Entry]bool, reverse bool) []Entry {
	var entries []Entry
	for e := range candidates {
		if !omitted[e] {
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int {
		if order := a.rank() - b.rank(); order != 0 {
			return order
		}
		return strings.Compare(a.String(), b.String())
	})
	if reverse {
		slices.Reverse(entries)
	}
	return entries
}
