package dock

import (
	"net/netip"

	"github.com/capstan-dev/capstan/dock/network"
)

// IsHost reports whether text is an address that a host of a dock may have.
func IsHost(text string) bool { return isIn(network.Hosts, text) }

// IsBalancer reports whether text is an address that a balancer of a dock may have.
func IsBalancer(text string) bool { return isIn(network.Balancers, text) }

func isIn(r network.Range, text string) bool {
	a, err := netip.ParseAddr(text)
	return err == nil && r.Contains(a)
}

// Ranges returns the address ranges that a dock uses, as text.
func Ranges() []string { return []string{"10.231.0.0/16"} }
