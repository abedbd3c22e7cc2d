// Package table describes a table of packet rules as data and replaces it in the kernel in one transaction, so that no
// packet ever meets a partial table. The package runs no program of the machine, such as nft.
package table

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// Table is one table of the family inet. The owner of the name owns everything in it.
type Table struct {
	Name   string
	Sets   []Set
	Chains []Chain
}

// Hook is the place in the kernel where a chain runs.
type Hook string

// The hooks.
const (
	Prerouting  Hook = "prerouting"
	Input       Hook = "input"
	Forward     Hook = "forward"
	Output      Hook = "output"
	Postrouting Hook = "postrouting"
)

// Priority orders the chains of a hook.
type Priority int32

// The priorities, with the nft program's names.
const (
	Raw     Priority = -300
	DestNAT Priority = -100
	Filter  Priority = 0
	SrcNAT  Priority = 100
)

// Chain is a list of rules that the kernel evaluates at a hook. It accepts packets that no rule decides.
type Chain struct {
	Name     string
	NAT      bool // whether the chain translates addresses; otherwise it filters packets
	Hook     Hook
	Priority Priority
	Rules    []Rule
}

// Rule is a list of conditions, followed by the action to take if all of them hold.
type Rule []Part

// Set holds IPv4 addresses, or senders of one family.
type Set struct {
	Name      string
	Addresses []netip.Addr // IPv4 only
	V6        bool         // whether Senders have IPv6 addresses
	Senders   []Sender     // used if Addresses is nil
}

// Sender allows the owner of a MAC to send from a range.
type Sender struct {
	MAC  net.HardwareAddr
	From netip.Prefix
}

// Text returns the table as lines, as the nft program would print it.
func (t Table) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "table inet %s\n", t.Name)
	for _, s := range t.Sets {
		fmt.Fprintf(&b, "  set %s\n", s.Name)
		for _, a := range s.Addresses {
			fmt.Fprintf(&b, "    %s\n", a)
		}
		for _, e := range s.Senders {
			fmt.Fprintf(&b, "    %s . %s\n", e.MAC, e.From)
		}
	}
	for _, c := range t.Chains {
		kind := "filter"
		if c.NAT {
			kind = "nat"
		}
		fmt.Fprintf(&b, "  chain %s: %s %s %d\n", c.Name, kind, c.Hook, c.Priority)
		for _, r := range c.Rules {
			var words []string
			for _, p := range r {
				words = append(words, p.text)
			}
			fmt.Fprintf(&b, "    %s\n", strings.Join(words, " "))
		}
	}
	return b.String()
}
