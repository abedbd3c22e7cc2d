// Package table describes a table of packet rules as data, and replaces it in the kernel as a whole: in one
// transaction, so that no packet sees half of it, and without any program of the machine.
package table

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// Table is one table of the family inet. Who owns its name owns all that is in it.
type Table struct {
	Name   string
	Sets   []Set
	Chains []Chain
}

// Hook is where the kernel asks a chain.
type Hook string

// The hooks.
const (
	Prerouting  Hook = "prerouting"
	Input       Hook = "input"
	Forward     Hook = "forward"
	Output      Hook = "output"
	Postrouting Hook = "postrouting"
)

// Priority is when a chain is asked, beside others of its hook.
type Priority int32

// The priorities; names are those of the nft program.
const (
	Raw     Priority = -300
	DestNAT Priority = -100
	Filter  Priority = 0
	SrcNAT  Priority = 100
)

// Chain is a list of rules that the kernel asks at a hook. What no rule decides goes on.
type Chain struct {
	Name     string
	NAT      bool // it translates addresses, else it filters
	Hook     Hook
	Priority Priority
	Rules    []Rule
}

// Rule is what has to hold, and last what is done then.
type Rule []Part

// Set holds addresses, or senders of one family.
type Set struct {
	Name      string
	Addresses []netip.Addr // of IPv4
	V6        bool         // of the senders
	Senders   []Sender     // where there are no addresses
}

// Sender says that who has this MAC may send from this range.
type Sender struct {
	MAC  net.HardwareAddr
	From netip.Prefix
}

// Text returns the table as lines, as the nft program would show them.
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
