// Package network is the network of the pods of one host: their addresses, links, and packet rules. Plans are pure;
// Apply applies them to a Kernel.
//
// Each pod has its own cable to its host, which routes between pods. So no pod can see another pod's traffic or answer
// in another pod's place. All traffic of pods passes the host's packet rules, even traffic between pods of the same
// host, and even on kernels that do not filter bridged packets. Package routes connects these pods to the pods of other
// hosts.
package network

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// ParseRanges parses the ranges of a Node's pods: one range, or one of each family, IPv4 and IPv6.
func ParseRanges(texts []string) ([]netip.Prefix, error) {
	var ranges []netip.Prefix
	for _, text := range texts {
		r, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("the Node's pod range %q is not valid: %w", text, err)
		}
		r = r.Masked()
		if r.Bits() > r.Addr().BitLen()-2 {
			return nil, fmt.Errorf("the Node's pod range %s has no room for pods", r)
		}
		if slices.ContainsFunc(ranges, func(other netip.Prefix) bool { return other.Addr().Is4() == r.Addr().Is4() }) {
			return nil, fmt.Errorf("the Node has two pod ranges of one family: %s", strings.Join(texts, ", "))
		}
		ranges = append(ranges, r)
	}
	return ranges, nil
}

// Gateway returns the host's address in a range: the first after the address of the network. No pod gets it.
func Gateway(r netip.Prefix) netip.Addr { return r.Masked().Addr().Next() }

// ErrExhausted is wrapped by Take's error if all addresses of a range are in use.
var ErrExhausted = errors.New("all addresses of the Node's pod range are in use: remove pods, or give " +
	"Nodes larger ranges")

// Addresses records the addresses that pods of this host hold. The zero value has no ranges. It is not safe for
// concurrent use.
type Addresses struct {
	ranges []netip.Prefix
	held   map[netip.Addr]string // the id of the pod that holds the address
	last   map[netip.Prefix]netip.Addr
}

// SetRanges sets the ranges that Take uses from now on. Addresses in use stay held.
func (a *Addresses) SetRanges(ranges []netip.Prefix) { a.ranges = slices.Clone(ranges) }

// Hold records that a pod has held these addresses since before a restart.
func (a *Addresses) Hold(id string, addresses []netip.Addr) error {
	for _, address := range addresses {
		if other := a.held[address]; other != "" && other != id {
			return fmt.Errorf("address %s is already held by pod sandbox %s", address, other)
		}
	}
	a.init()
	for _, address := range addresses {
		a.held[address] = id
	}
	return nil
}

// Take takes one address of each range for a pod. It continues after the address taken last, so that the address of a
// pod just removed is not reused while its peers may still try to reach it.
func (a *Addresses) Take(id string) ([]netip.Addr, error) {
	a.init()
	var taken []netip.Addr
	for _, r := range a.ranges {
		address, err := a.next(r)
		if err != nil {
			return nil, err
		}
		taken = append(taken, address)
	}
	for i, address := range taken {
		a.held[address] = id
		a.last[a.ranges[i]] = address
	}
	return taken, nil
}

// Free frees the addresses of a pod, if it holds any.
func (a *Addresses) Free(id string) {
	for address, holder := range a.held {
		if holder == id {
			delete(a.held, address)
		}
	}
}

// HoldsIn reports whether a pod holds an address of a range.
func (a *Addresses) HoldsIn(r netip.Prefix) bool {
	for address := range a.held {
		if r.Contains(address) {
			return true
		}
	}
	return false
}

func (a *Addresses) init() {
	if a.held == nil {
		a.held, a.last = map[netip.Addr]string{}, map[netip.Prefix]netip.Addr{}
	}
}

// next returns a free address of a range. It skips the first address (of the network), the second (of the gateway), and
// in IPv4 the last (broadcast).
func (a *Addresses) next(r netip.Prefix) (netip.Addr, error) {
	first := Gateway(r).Next()
	usable := func(address netip.Addr) bool {
		return r.Contains(address) && (address.Is6() || r.Contains(address.Next()))
	}
	address := first
	if last := a.last[r]; last.IsValid() && usable(last.Next()) {
		address = last.Next()
	}
	for range len(a.held) + 1 {
		if a.held[address] == "" {
			return address, nil
		}
		if address = address.Next(); !usable(address) {
			address = first
		}
	}
	return netip.Addr{}, fmt.Errorf("%w: %s", ErrExhausted, r)
}
