// Package network plans and creates the network of the dock: one bridge in one network namespace, a veth pair (a cable)
// for each running host, and an address for each balancer. Plans are pure; Apply applies them to a Kernel.
package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// The addresses in the dock, which are visible only inside it.
var (
	Gateway = netip.MustParseAddr("10.231.0.1") // the dock's own address; the plane listens here too

	Hosts     = Range{netip.MustParseAddr("10.231.1.1"), netip.MustParseAddr("10.231.15.254")}
	Balancers = Range{netip.MustParseAddr("10.231.16.1"), netip.MustParseAddr("10.231.254.254")}
)

// Bridge is the name of the bridge in the dock, and HostLink the name of the interface inside each host.
const (
	Bridge   = "capstan0"
	HostLink = "eth0"
)

// Range is a range of addresses, both ends included.
type Range struct{ First, Last netip.Addr }

// ErrExhausted is returned by Next if all addresses are in use.
var ErrExhausted = errors.New("all addresses of the range are in use")

// Next returns the first unused address after the previous one, and wraps around at the end of the range. If previous
// is invalid, Next starts at First. Starting after the previous address avoids reusing the address of something just
// deleted, which its peers may still try to reach.
func (r Range) Next(previous netip.Addr, used map[netip.Addr]bool) (netip.Addr, error) {
	a := r.First
	if r.Contains(previous) && previous != r.Last {
		a = previous.Next()
	}
	for start := a; ; {
		if b := a.As4(); !used[a] && b[3] != 0 && b[3] != 255 {
			return a, nil
		}
		if a = a.Next(); !r.Contains(a) {
			a = r.First
		}
		if a == start {
			return netip.Addr{}, fmt.Errorf("%w: %v to %v", ErrExhausted, r.First, r.Last)
		}
	}
}

// Contains reports whether an address is in the range.
func (r Range) Contains(a netip.Addr) bool {
	return a.IsValid() && r.First.Compare(a) <= 0 && a.Compare(r.Last) <= 0
}

// MAC returns a MAC address derived from a. A host that comes back with its old address has its old MAC too, so no ARP
// entry becomes stale.
func MAC(a netip.Addr) net.HardwareAddr {
	b := a.As4()
	return net.HardwareAddr{0x02, 0xca, b[0], b[1], b[2], b[3]}
}

// LinkName returns the name of the dock's end of a host's veth pair. It is unique for each address and within Linux's
// limit of 15 bytes.
func LinkName(a netip.Addr) string {
	b := a.As4()
	return fmt.Sprintf("host-%d-%d", b[2], b[3])
}
