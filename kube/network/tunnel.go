package network

import (
	"net"
	"net/netip"
)

// Links is the prefix of the names of all links to pods: those of this host's own pods, and the tunnel to the other
// Nodes. No other link of a host has this prefix.
const Links = "pod"

// Tunnel is the link to the pods of other Nodes. Package routes creates it.
const Tunnel = Links + "net0"

// TunnelPort is the UDP port at which Nodes exchange packets of pods.
const TunnelPort = 4789

// TunnelHeaders is the number of bytes that the tunnel adds to a packet: 14 of Ethernet, 8 of VXLAN, 8 of UDP, 20 of
// IPv4.
const TunnelHeaders = 50

// TunnelMAC returns the MAC of a Node in the tunnel. It is derived from the Node's address, as in the dock's network,
// so that no lookup is needed.
func TunnelMAC(node netip.Addr) net.HardwareAddr {
	b := node.As4()
	return net.HardwareAddr{0x02, 0xcb, b[0], b[1], b[2], b[3]}
}
