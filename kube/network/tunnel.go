package network

import (
	"net"
	"net/netip"
)

// Links is how the names of all links begin that this host's pods are behind: their own, and the tunnel to the other
// Nodes. A host has no others of such names.
const Links = "pod"

// Tunnel is the link behind which the pods of other Nodes are. Package routes makes it.
const Tunnel = Links + "net0"

// TunnelPort is the UDP port at which Nodes send each other what is for pods.
const TunnelPort = 4789

// TunnelHeaders is by how many bytes packets grow in the tunnel: 14 of Ethernet, 8 of VXLAN, 8 of UDP, 20 of IPv4.
const TunnelHeaders = 50

// TunnelMAC is the MAC of a Node in the tunnel. It follows from the Node's address, as in the dock's network, so nobody
// has to ask for it.
func TunnelMAC(node netip.Addr) net.HardwareAddr {
	b := node.As4()
	return net.HardwareAddr{0x02, 0xcb, b[0], b[1], b[2], b[3]}
}
