// Package podnet connects the pods of owned hosts; capstan-net runs it on each Node. Each pod of a Node has an address
// from the Node's own range, and its own link; there is no bridge. Nodes of the same network segment reach each other's
// ranges by routes. All other Nodes reach each other by VXLAN. Packets from pods to outside the cluster have the Node's
// address.
//
// This network supports only IPv4, and does not enforce NetworkPolicies.
package podnet

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Names of what podnet creates on a Node.
const (
	// Tunnel is the link to Nodes of other segments.
	Tunnel = "capnet0"
	// Table is the nftables table, of family ip.
	Table = "capstan-net"
	// ConfigPath is the path of the configuration with which the container runtime connects a pod.
	ConfigPath = "/etc/cni/net.d/10-capstan.conflist"
)

// headers is the number of bytes by which packets grow in the tunnel.
const headers = 50

// Node is what other Nodes must know about a Node.
type Node struct {
	Name string
	// Address is the Node's own address, IPv4.
	Address netip.Addr
	// Range is the address range of its pods.
	Range netip.Prefix
}

// Route leads to the pods of another Node.
type Route struct {
	To  netip.Prefix
	Via netip.Addr
	// Tunneled says that the route goes through the tunnel. The Node has the address Via inside the tunnel, too.
	Tunneled bool
}

// Desired is the network configuration that a Node must have.
type Desired struct {
	Self   Node
	Routes []Route
}

// Tunneled reports whether any route takes the tunnel. Pure.
func (d *Desired) Tunneled() bool {
	return slices.ContainsFunc(d.Routes, func(r Route) bool { return r.Tunneled })
}

// Plan returns what the Node called name must have, or false if the Node has no range or address yet. segments are the
// networks that the Node reaches without a router. Plan omits a Node whose range overlaps with this Node's range, or
// with the range of a Node whose name sorts earlier, because the packets of their pods can't be told apart. Pure.
func Plan(name string, segments []netip.Prefix, nodes []Node) (*Desired, bool) {
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	at := slices.IndexFunc(nodes, func(n Node) bool { return n.Name == name })
	if at < 0 || !nodes[at].usable() {
		return nil, false
	}
	d := &Desired{Self: nodes[at]}
	taken := []netip.Prefix{d.Self.Range}
	for _, n := range nodes {
		if n.Name == name || !n.usable() || n.Address == d.Self.Address ||
			slices.ContainsFunc(taken, n.Range.Overlaps) {
			continue
		}
		taken = append(taken, n.Range)
		near := slices.ContainsFunc(segments, func(s netip.Prefix) bool { return s.Contains(n.Address) })
		d.Routes = append(d.Routes, Route{To: n.Range, Via: n.Address, Tunneled: !near})
	}
	return d, true
}

func (n Node) usable() bool { return n.Address.Is4() && n.Range.IsValid() && n.Range.Addr().Is4() }

// MAC returns a Node's hardware address in the tunnel. It follows from the Node's IP address, so no Node has to ask for
// it. Pure.
func MAC(node netip.Addr) net.HardwareAddr {
	b := node.As4()
	return net.HardwareAddr{0x02, 0xca, b[0], b[1], b[2], b[3]}
}

// Config returns the configuration of the container runtime for a Node whose own link has this MTU. Pure.
func (d *Desired) Config(mtu int) ([]byte, error) {
	type object = map[string]any
	text, err := json.MarshalIndent(object{
		"cniVersion": "1.0.0", "name": "capstan",
		"plugins": []object{
			{
				"type": "ptp", "mtu": mtu - headers, "ipMasq": false,
				"ipam": object{
					"type": "host-local", "ranges": [][]object{{{"subnet": d.Self.Range.String()}}},
					"routes": []object{{"dst": "0.0.0.0/0"}},
				},
			},
			{"type": "portmap", "backend": "nftables", "capabilities": object{"portMappings": true}},
		},
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the configuration of the pod network: %w", err)
	}
	return append(text, '\n'), nil
}
