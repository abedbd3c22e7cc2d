package network

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/kube/network/table"
)

// HostPort is a port of the host that leads to a pod.
type HostPort struct {
	Protocol table.Protocol
	Host     netip.Addr // the host's address; an unspecified or the zero Addr means all of them
	Port     uint16
	Pod      uint16 // the port of the pod
}

func (p HostPort) String() string {
	host := "all addresses"
	if !p.any() {
		host = p.Host.String()
	}
	return fmt.Sprintf("port %d/%s of %s", p.Port, p.Protocol, host)
}

func (p HostPort) any() bool { return !p.Host.IsValid() || p.Host.IsUnspecified() }

// leadsTo reports whether the port can lead to a pod's address: 0.0.0.0 means IPv4, :: means IPv6.
func (p HostPort) leadsTo(a netip.Addr) bool { return !p.Host.IsValid() || p.Host.Is4() == a.Is4() }

// meets reports whether one packet could match both host ports.
func (p HostPort) meets(other HostPort) bool {
	if p.Port != other.Port || p.Protocol != other.Protocol {
		return false
	}
	switch {
	case p.Host.IsValid() && other.Host.IsValid() && p.Host.Is4() != other.Host.Is4():
		return false
	case p.any() || other.any():
		return true
	}
	return p.Host == other.Host
}

// Conflict returns the reason why a pod can't have its ports together with the ports of other pods, or nil.
func Conflict(p Pod, others []Pod) error {
	for i, port := range p.Ports {
		for _, mine := range p.Ports[:i] {
			if port.meets(mine) {
				return fmt.Errorf("the pod wants %s twice", port)
			}
		}
		for _, other := range others {
			if other.ID == p.ID {
				continue
			}
			for _, theirs := range other.Ports {
				if port.meets(theirs) {
					return fmt.Errorf("%s already leads to pod sandbox %s: remove that pod, or choose another hostPort",
						port, other.ID)
				}
			}
		}
	}
	return nil
}

// TableName is the name of the table with the packet rules of a host's pods.
const TableName = "capstan-pods"

var (
	loopback4 = netip.MustParsePrefix("127.0.0.0/8")
	byCable   = table.In(linkStart + "*")
	outward   = table.NotOut(Links + "*")
)

// rules returns the packet rules of a host for pods of these ranges.
func rules(ranges []netip.Prefix, pods []Pod) table.Table {
	own := table.Chain{Name: "own", Hook: table.Prerouting, Priority: table.Raw, Rules: []table.Rule{
		{byCable, table.Strange(), table.Drop}, // a pod sends only from its own addresses
		{byCable, table.To(loopback4), table.Drop},
	}}
	away := table.Chain{Name: "away", Hook: table.Forward, Priority: table.Filter}
	from := table.Chain{Name: "from", NAT: true, Hook: table.Postrouting, Priority: table.SrcNAT}
	for _, r := range ranges {
		// Traffic of pods to other places is masqueraded: it leaves with the host's own address. If it could reach the
		// port of other hosts' tunnels, it would look as if it came from this host's tunnel.
		away.Rules = append(away.Rules, table.Rule{
			table.From(r), outward, table.Port(table.UDP, TunnelPort), table.Drop,
		})
		from.Rules = append(from.Rules, table.Rule{
			table.From(r), outward, table.NotOut(loopback), table.Masquerade,
		})
	}
	arriving := table.Chain{Name: "arriving", NAT: true, Hook: table.Prerouting, Priority: table.DestNAT}
	local := table.Chain{Name: "local", NAT: true, Hook: table.Output, Priority: table.DestNAT}
	pods = slices.Clone(pods)
	slices.SortFunc(pods, func(a, b Pod) int { return strings.Compare(a.ID, b.ID) })
	for _, p := range pods {
		to, back := portRules(p)
		arriving.Rules = append(arriving.Rules, to...)
		local.Rules = append(local.Rules, to...)
		from.Rules = append(from.Rules, back...)
	}
	return table.Table{Name: TableName, Chains: []table.Chain{own, arriving, local, away, from}}
}

// portRules returns the rules that lead packets to a pod, and the rules by which the pod's answers find the way back if
// the host or the pod itself has sent the packets.
func portRules(p Pod) (to, back []table.Rule) {
	ports := slices.Clone(p.Ports)
	slices.SortFunc(ports, func(a, b HostPort) int {
		return cmp.Or(strings.Compare(b.Host.String(), a.Host.String()), cmp.Compare(a.Port, b.Port),
			cmp.Compare(a.Protocol, b.Protocol))
	})
	for i, a := range p.Addresses {
		leads := false
		for _, port := range ports {
			if !port.leadsTo(a) {
				continue
			}
			leads = true
			host := table.Rule{table.To(defaultRoute(a)), table.ToLocal()}
			if !port.any() {
				host = table.Rule{table.To(single(port.Host))}
			}
			to = append(to, append(host, table.Port(port.Protocol, port.Port),
				table.SendTo(netip.AddrPortFrom(a, port.Pod))))
		}
		if !leads {
			continue
		}
		back = append(back, table.Rule{
			table.From(single(a)), table.To(single(a)), table.Translated(), table.SendFrom(p.Sources[i]),
		})
		if a.Is4() {
			back = append(back, table.Rule{
				table.From(loopback4), table.To(single(a)), table.Translated(), table.SendFrom(p.Sources[i]),
			})
		}
	}
	return to, back
}
