//go:build linux

package routes_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/capstan-dev/capstan/kube/internal/hosttest"
	"github.com/capstan-dev/capstan/kube/network"
	"github.com/capstan-dev/capstan/kube/network/nettest"
	"github.com/capstan-dev/capstan/kube/network/routes"
)

func TestMain(m *testing.M) { os.Exit(hosttest.Main(m, nil)) }

// host is a host of a cluster: a Node.
type host struct {
	*nettest.Space
	t    testing.TB
	node routes.Node
	net  *network.Network
}

// newHost creates the n-th Node of a cluster, whose hosts have addresses in one range. All clusters have the same
// ranges of pods.
func newHost(t testing.TB, dock *nettest.Dock, cluster byte, n int) *host {
	t.Helper()
	address := netip.AddrFrom4([4]byte{10, 231, cluster, byte(n)})
	h := &host{Space: dock.Host(address), t: t, net: network.New(nil)}
	ranges, err := network.ParseRanges([]string{fmt.Sprintf("10.244.%d.0/24", n), fmt.Sprintf("fd00:%d::/64", n)})
	if err != nil {
		t.Fatal(err)
	}
	h.node = routes.Node{Name: fmt.Sprintf("n%d", n), Address: address, Ranges: ranges}
	h.Do(func() error { return h.net.SetRanges(ranges) })
	return h
}

// know makes hosts Nodes of one cluster.
func know(hosts ...*host) {
	var nodes []routes.Node
	for _, h := range hosts {
		nodes = append(nodes, h.node)
	}
	for _, h := range hosts {
		want, _, _ := routes.Plan(h.node.Name, nil, nodes)
		h.Do(func() error {
			_, err := routes.Apply(want)
			return err
		})
	}
}

// pod is a pod that answers at port 8080.
type pod struct {
	*nettest.Space
	v4, v6 netip.Addr
}

func (h *host) pod(name string) *pod {
	h.t.Helper()
	p := &pod{Space: nettest.New(h.t)}
	h.Do(func() error {
		addresses, err := h.net.Add(fmt.Sprintf("%x", name+"..........."), p.Path(), nil)
		if err == nil {
			p.v4, p.v6 = addresses[0], addresses[1]
		}
		return err
	})
	p.Serve(8080, name)
	return p
}

func at(a netip.Addr, port uint16) netip.AddrPort { return netip.AddrPortFrom(a, port) }

// Two clusters of one dock have the same ranges of pods. Each pod reaches the pods of its own cluster with its own
// address, and the Nodes reach them too.
func TestPodsOfTwoHostsInTwoClusters(t *testing.T) {
	hosttest.Need(t)
	dock := nettest.NewDock(t)
	for cluster := byte(1); cluster <= 2; cluster++ {
		one, two := newHost(t, dock, cluster, 1), newHost(t, dock, cluster, 2)
		know(one, two)
		near, far := one.pod(fmt.Sprint("near", cluster)), two.pod(fmt.Sprint("far", cluster))
		one.Serve(9090, fmt.Sprint("one", cluster))
		defer func() { // while both clusters exist
			name := fmt.Sprint("far", cluster)
			near.Hears(at(far.v4, 8080), name+" saw "+near.v4.String())
			near.Hears(at(far.v6, 8080), name+" saw "+near.v6.String())
			far.Hears(at(near.v4, 8080), fmt.Sprint("near", cluster)+" saw "+far.v4.String())
			one.Hears(at(far.v4, 8080), name+" saw "+one.node.Address.String())
			one.Hears(at(far.v6, 8080), name+" saw "+network.Gateway(one.node.Ranges[1]).String())
			far.Hears(at(one.node.Address, 9090), fmt.Sprint("one", cluster)+" saw "+far.v4.String())
			two.Hears(at(one.node.Address, 9090), fmt.Sprint("one", cluster)+" saw "+two.node.Address.String())
		}()
	}
}

// Large packets pass: packets leave room for the tunnel's headers, and large sends are segmented.
func TestALargeAnswerPassesTheTunnel(t *testing.T) {
	hosttest.Need(t)
	dock := nettest.NewDock(t)
	one, two := newHost(t, dock, 1, 1), newHost(t, dock, 1, 2)
	know(one, two)
	near, far := one.pod("near"), two.pod("far")
	if got, err := nettest.Stream(near.Space, far.Space, at(far.v4, 7000), 32<<20); err != nil || got != 32<<20 {
		t.Errorf("got %d bytes, %v", got, err)
	}
	ear := far.Listen(7001)
	large := make([]byte, 1400) // the maximum is 1450 minus the headers of IPv4 and UDP: 1422
	if err := near.Say(netip.Addr{}, at(far.v4, 7001), large); err != nil {
		t.Fatal(err)
	}
	hosttest.WaitFor(t, "a large packet", func() bool { return ear.Heard(string(large)) }, notHeard)
}

func notHeard() string { return "not heard" }

// frame is a packet in the tunnel's format: an IPv4 UDP packet for a pod, in Ethernet, in VXLAN.
func frame(mac net.HardwareAddr, from netip.Addr, toMAC net.HardwareAddr, to netip.AddrPort, text string) []byte {
	udp := binary.BigEndian.AppendUint16(nil, 1234)
	udp = binary.BigEndian.AppendUint16(udp, to.Port())
	udp = binary.BigEndian.AppendUint16(udp, uint16(8+len(text)))
	udp = append(append(udp, 0, 0), text...)
	ip := []byte{0x45, 0, 0, 0, 0, 1, 0, 0, 64, 17, 0, 0}
	binary.BigEndian.PutUint16(ip[2:], uint16(20+len(udp)))
	ip = slices.Concat(ip, from.AsSlice(), to.Addr().AsSlice())
	sum := uint32(0)
	for i := 0; i < len(ip); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	sum = sum&0xffff + sum>>16
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum+sum>>16))
	return slices.Concat([]byte{8, 0, 0, 0, 0, 0, 1, 0}, toMAC, mac, []byte{8, 0}, ip, udp)
}

// A host of another cluster reaches no pod of this cluster, whatever it pretends to be. A Node of this cluster can send
// only from its own addresses.
func TestPodsHearTheirClusterOnly(t *testing.T) {
	hosttest.Need(t)
	dock := nettest.NewDock(t)
	victim, friend, hostile := newHost(t, dock, 1, 1), newHost(t, dock, 1, 2), newHost(t, dock, 1, 3)
	foreign, gone := newHost(t, dock, 2, 2), newHost(t, dock, 1, 4)
	know(victim, friend, hostile, gone)
	know(victim, friend, hostile)
	know(foreign)
	target, podOfVictim, podOfFriend := victim.pod("target"), victim.pod("neighbour"), friend.pod("friend")
	ear := target.Listen(5000)
	mac := func(h *host) net.HardwareAddr { return network.TunnelMAC(h.node.Address) }
	podOf := func(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 244, byte(n), 200}) }
	taken := friend.node.Address
	foreign.Take("eth0", taken)
	from := func(who *nettest.Space, outer netip.Addr, mac net.HardwareAddr, inner netip.Addr, text string) {
		_ = who.Say(outer, at(victim.node.Address, network.TunnelPort),
			frame(mac, inner, network.TunnelMAC(victim.node.Address), at(target.v4, 5000), text))
	}
	any4, unknown := netip.Addr{}, net.HardwareAddr{2, 9, 9, 9, 9, 9}
	arrives := map[string]func(text string){
		"a Node, from an address of its pods": func(text string) { from(friend.Space, any4, mac(friend), podOf(2), text) },
		"a Node, from its own address": func(text string) {
			from(friend.Space, any4, mac(friend), friend.node.Address, text)
		},
	}
	control := func(after string) {
		t.Helper()
		for name, say := range arrives {
			text := name + " after " + after
			say(text)
			hosttest.WaitFor(t, text, func() bool { return ear.Heard(text) }, notHeard)
		}
	}
	control("nothing")
	for name, say := range map[string]func(text string){
		"a Node, from another Node's pods": func(text string) {
			from(hostile.Space, any4, mac(hostile), podOf(2), text)
		},
		"a Node, from another Node's pods and with its MAC": func(text string) {
			from(hostile.Space, any4, mac(friend), podOf(2), text)
		},
		"a Node, with an unknown MAC": func(text string) { from(hostile.Space, any4, unknown, podOf(3), text) },
		"a Node, from another Node's address": func(text string) {
			from(hostile.Space, any4, mac(hostile), friend.node.Address, text)
		},
		"a Node, from the receiver's own pods": func(text string) {
			from(friend.Space, any4, mac(friend), podOf(1), text)
		},
		"a Node, from loopback": func(text string) {
			from(friend.Space, any4, mac(friend), netip.MustParseAddr("127.0.0.1"), text)
		},
		"another cluster's host, as itself": func(text string) {
			from(foreign.Space, foreign.node.Address, mac(foreign), podOf(2), text)
		},
		"another cluster's host, with a Node's MAC": func(text string) {
			from(foreign.Space, foreign.node.Address, mac(friend), podOf(2), text)
		},
		"another cluster's host, with a Node's address": func(text string) {
			from(foreign.Space, taken, mac(friend), podOf(2), text)
		},
		"another cluster's host, without a tunnel": func(text string) {
			_ = foreign.Say(foreign.node.Address, at(target.v4, 5000), []byte(text))
		},
		"a Node that was removed": func(text string) { from(gone.Space, any4, mac(gone), podOf(4), text) },
		"the dock": func(text string) {
			from(dock.Space, any4, mac(friend), podOf(2), text)
		},
		"a pod of the same host, as a Node": func(text string) {
			from(podOfVictim.Space, any4, mac(friend), podOf(2), text)
		},
		"a pod of another host, as its Node": func(text string) {
			from(podOfFriend.Space, any4, mac(friend), podOf(2), text)
		},
	} {
		say("attack: " + name)
		control(name)
		if ear.Heard("attack: " + name) {
			t.Errorf("%s: the packet arrived", name)
		}
	}
}

// Routes that somebody else removes come back, unwanted routes disappear, and after Remove nothing is left.
func TestRoutesAreRepairedAndRemoved(t *testing.T) {
	hosttest.Need(t)
	dock := nettest.NewDock(t)
	one, two := newHost(t, dock, 1, 1), newHost(t, dock, 1, 2)
	nothing := one.Dump()
	know(one, two)
	whole := one.Dump()
	for name, damage := range map[string]func() error{
		"a deleted link": func() error {
			l, err := netlink.LinkByName(network.Tunnel)
			if err != nil {
				return err
			}
			return netlink.LinkDel(l)
		},
		"deleted routes": func() error {
			all, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: routes.Protocol},
				netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TABLE)
			for _, r := range all {
				if err := netlink.RouteDel(&r); err != nil {
					return err
				}
			}
			return err
		},
		"a deleted rule": func() error {
			all, err := netlink.RuleList(netlink.FAMILY_V4)
			for _, r := range all {
				if r.Protocol == routes.Protocol {
					return netlink.RuleDel(&r)
				}
			}
			return err
		},
		"a link that is down": func() error {
			l, err := netlink.LinkByName(network.Tunnel)
			if err != nil {
				return err
			}
			return netlink.LinkSetDown(l)
		},
	} {
		one.Do(damage)
		know(one, two)
		if now := one.Dump(); now != whole {
			t.Errorf("%s: the network is\n%s\nwant\n%s", name, now, whole)
		}
	}
	know(one)
	want, _, _ := routes.Plan("n1", nil, []routes.Node{one.node, two.node})
	one.Do(func() error {
		changes, err := routes.Apply(want)
		if len(changes) == 0 {
			t.Error("Apply changed nothing after a Node came back")
		}
		if again, err := routes.Apply(want); len(again) > 0 || err != nil {
			t.Errorf("a second Apply changes %v, %v", again, err)
		}
		return err
	})
	for range 2 {
		one.Do(routes.Remove)
	}
	if now := one.Dump(); now != nothing {
		t.Errorf("the network is\n%s\nwant\n%s", now, nothing)
	}
}
