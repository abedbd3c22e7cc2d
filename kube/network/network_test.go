//go:build linux

package network_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/capstan-dev/capstan/kube/internal/hosttest"
	"github.com/capstan-dev/capstan/kube/network"
	"github.com/capstan-dev/capstan/kube/network/nettest"
	"github.com/capstan-dev/capstan/kube/network/table"
)

func TestMain(m *testing.M) { os.Exit(hosttest.Main(m, nil)) }

func prefixes(t testing.TB, texts ...string) []netip.Prefix {
	t.Helper()
	ranges, err := network.ParseRanges(texts)
	if err != nil {
		t.Fatal(err)
	}
	return ranges
}

// host is a host with the network of its pods.
type host struct {
	*nettest.Space
	t   testing.TB
	net *network.Network
}

func newHost(t testing.TB, space *nettest.Space, ranges ...string) *host {
	t.Helper()
	h := &host{space, t, network.New(nil)}
	h.Do(func() error { return h.net.SetRanges(prefixes(t, ranges...)) })
	return h
}

// pod is a pod that answers at port 8080.
type pod struct {
	*nettest.Space
	id        string
	addresses []netip.Addr
}

func idOf(name string) string { return fmt.Sprintf("%x", name+"..............") }

func (h *host) pod(name string, ports ...network.HostPort) *pod {
	h.t.Helper()
	p := &pod{Space: nettest.New(h.t), id: idOf(name)}
	h.Do(func() (err error) {
		p.addresses, err = h.net.Add(p.id, p.Path(), ports)
		return err
	})
	p.Serve(8080, name)
	return p
}

func (h *host) remove(p *pod) {
	h.t.Helper()
	h.Do(func() error { return h.net.Remove(p.id) })
}

func at(a netip.Addr, port uint16) netip.AddrPort { return netip.AddrPortFrom(a, port) }

const silence = 300 * time.Millisecond // how long to wait for an answer that must not arrive

// deaf checks that nothing answers at an address.
func deaf(t *testing.T, who *nettest.Space, to netip.AddrPort) {
	t.Helper()
	for _, protocol := range []string{"tcp", "udp"} {
		if got, err := who.Ask(protocol, netip.Addr{}, to, silence); err == nil {
			t.Errorf("%s to %s is answered: %s", protocol, to, got)
		}
	}
}

var (
	addrA    = netip.MustParseAddr("10.231.1.1")
	local    = netip.MustParseAddr("127.0.0.1")
	gateway6 = netip.MustParseAddr("fd00:1::1")
)

func TestPodsOfOneHost(t *testing.T) {
	hosttest.Need(t)
	dock := nettest.NewDock(t)
	h := newHost(t, dock.Host(addrA), "10.244.1.0/24", "fd00:1::/64")
	h.Serve(9090, "host")
	dock.Serve(9090, "dock")
	a, b := h.pod("a"), h.pod("b")
	for i, source := range []netip.Addr{addrA, gateway6} {
		a.Hears(at(b.addresses[i], 8080), "b saw "+a.addresses[i].String())
		a.Hears(at(a.addresses[i], 8080), "a saw "+a.addresses[i].String())
		h.Hears(at(b.addresses[i], 8080), "b saw "+source.String()) // the host asks pods directly, as probes do
		a.Hears(at(source, 9090), "host saw "+a.addresses[i].String())
	}
	a.Hears(at(nettest.Gateway, 9090), "dock saw "+addrA.String()) // traffic of pods to places outside is masqueraded
	h.Hears(at(nettest.Gateway, 9090), "dock saw "+addrA.String())
	if mtu := a.MTU("eth0"); mtu != 1500-network.TunnelHeaders {
		t.Errorf("the pod's MTU is %d", mtu)
	}
}

// TestEveryQuestionIsRefused asks more often at ports that nobody serves than Linux would answer by default.
func TestEveryQuestionIsRefused(t *testing.T) {
	hosttest.Need(t)
	h := newHost(t, nettest.NewDock(t).Host(addrA), "10.244.1.0/24", "fd00:1::/64")
	a := h.pod("a")
	for _, to := range []netip.Addr{addrA, gateway6} {
		for i := range 20 {
			if got, err := a.Ask("udp", netip.Addr{}, at(to, 53), silence); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Fatalf("question %d to %s: got %q, %v; want %v", i+1, to, got, err, syscall.ECONNREFUSED)
			}
		}
	}
}

func TestHostPorts(t *testing.T) {
	hosttest.Need(t)
	dock := nettest.NewDock(t)
	h := newHost(t, dock.Host(addrA), "10.244.1.0/24", "fd00:1::/64")
	both := func(host netip.Addr, number uint16) []network.HostPort {
		return []network.HostPort{
			{Protocol: table.TCP, Host: host, Port: number, Pod: 8080},
			{Protocol: table.UDP, Host: host, Port: number, Pod: 8080},
		}
	}
	all := h.pod("all", both(netip.Addr{}, 80)...)
	onLoopback := h.pod("loopback", both(local, 81)...)
	onHost := h.pod("host", both(addrA, 81)...)
	other := h.pod("other")

	dock.Hears(at(addrA, 80), "all saw "+nettest.Gateway.String())
	h.Hears(at(addrA, 80), "all saw "+addrA.String())
	h.Hears(at(local, 80), "all saw "+addrA.String())
	h.Hears(at(gateway6, 80), "all saw "+gateway6.String())
	other.Hears(at(addrA, 80), "all saw "+other.addresses[0].String())
	all.Hears(at(addrA, 80), "all saw "+addrA.String()) // its own port
	h.Hears(at(local, 81), "loopback saw "+addrA.String())
	h.Hears(at(addrA, 81), "host saw "+addrA.String())
	dock.Hears(at(addrA, 81), "host saw "+nettest.Gateway.String())
	deaf(t, h.Space, at(addrA, 82))

	if err := network.Within(h.Path(), func() error {
		_, err := h.net.Add(idOf("conflict"), other.Path(), both(local, 80)[:1])
		return err
	}); err == nil || !strings.Contains(err.Error(), "port 80/tcp of 127.0.0.1 already leads to pod sandbox "+all.id) {
		t.Errorf("two pods got the same port: %v", err)
	}
	h.remove(onLoopback)
	deaf(t, h.Space, at(local, 81))
	h.Hears(at(addrA, 81), "host saw "+addrA.String())
	h.remove(all)
	h.remove(onHost)
	deaf(t, dock.Space, at(addrA, 80))
	again := h.pod("again", both(netip.Addr{}, 80)...)
	h.Hears(at(local, 80), "again saw "+addrA.String())
	h.remove(again)
}

// A client that sends to a port without a pause reaches the current pod, not the previous one.
func TestAPortOfAnotherPodIsNotRemembered(t *testing.T) {
	hosttest.Need(t)
	dock := nettest.NewDock(t)
	h := newHost(t, dock.Host(addrA), "10.244.1.0/24")
	port := network.HostPort{Protocol: table.UDP, Port: 53, Pod: 8080}
	from := netip.AddrPortFrom(nettest.Gateway, 4000)
	first := h.pod("first", port)
	dock.HearsFrom(from, at(addrA, 53), "first saw "+nettest.Gateway.String())
	h.remove(first)
	h.pod("second", port)
	dock.HearsFrom(from, at(addrA, 53), "second saw "+nettest.Gateway.String())
}

// A pod reaches others only from its own addresses, and can't send packets that look as if they came from its host's
// tunnel.
func TestAPodHasItsOwnAddressesOnly(t *testing.T) {
	hosttest.Need(t)
	dock := nettest.NewDock(t)
	h := newHost(t, dock.Host(addrA), "10.244.1.0/24", "fd00:1::/64")
	attacker, victim := h.pod("attacker", network.HostPort{Protocol: table.TCP, Port: 80, Pod: 8080}), h.pod("victim")
	other := h.pod("other")
	ear, onHost, inDock := victim.Listen(5000), h.Listen(5000), dock.Listen(5000)
	tunnel := dock.Listen(network.TunnelPort)
	foreign := []string{
		other.addresses[0].String(), "10.244.1.99", "10.231.1.1", "10.231.1.9", "192.0.2.1",
		other.addresses[1].String(), "fd00:1::99", "2001:db8::1",
	}
	for _, text := range foreign {
		attacker.Take("eth0", netip.MustParseAddr(text))
	}
	for _, text := range foreign {
		from := netip.MustParseAddr(text)
		for _, to := range []netip.Addr{victim.addresses[0], victim.addresses[1], addrA, gateway6, nettest.Gateway} {
			if from.Is4() == to.Is4() && from != to {
				_ = attacker.Say(from, at(to, 5000), []byte("spoofed"))
			}
		}
	}
	for _, text := range foreign {
		attacker.Leave("eth0", netip.MustParseAddr(text))
	}
	_ = attacker.Say(netip.Addr{}, at(nettest.Gateway, network.TunnelPort), []byte("spoofed"))
	for _, c := range []struct {
		name string
		ear  *nettest.Ear
		to   netip.AddrPort
	}{
		{"the victim", ear, at(victim.addresses[0], 5000)}, {"the victim, by IPv6", ear, at(victim.addresses[1], 5000)},
		{"the host", onHost, at(addrA, 5000)}, {"the dock", inDock, at(nettest.Gateway, 5000)},
	} {
		own := attacker.addresses[0]
		if c.to.Addr().Is6() {
			own = attacker.addresses[1]
		}
		text := "to " + c.name
		if err := attacker.Say(own, c.to, []byte(text)); err != nil {
			t.Fatal(err)
		}
		hosttest.WaitFor(t, text, func() bool { return c.ear.Heard(text) }, notHeard)
		if c.ear.Heard("spoofed") {
			t.Errorf("%s got a packet from an address that is not the pod's", c.name)
		}
	}
	if err := h.Say(netip.Addr{}, at(nettest.Gateway, network.TunnelPort), []byte("control")); err != nil {
		t.Fatal(err)
	}
	hosttest.WaitFor(t, "the control packet", func() bool { return tunnel.Heard("control") }, notHeard)
	if tunnel.Heard("spoofed") {
		t.Error("a pod sent a packet to the tunnel's port from its host's address")
	}
}

func notHeard() string { return "not heard" }

// TestNothingIsLeft checks that everything created is removed, whichever step fails, and that a new Network takes over
// the existing pods.
func TestNothingIsLeft(t *testing.T) {
	hosttest.Need(t)
	dock := nettest.NewDock(t)
	h := newHost(t, dock.Host(addrA), "10.244.1.0/24", "fd00:1::/64")
	before := h.Dump()
	ports := []network.HostPort{
		{Protocol: table.TCP, Port: 80, Pod: 8080}, {Protocol: table.UDP, Port: 80, Pod: 8080},
	}
	stays := h.pod("stays", ports...)
	h.pod("goes", network.HostPort{Protocol: table.TCP, Port: 81, Pod: 8080})

	after := network.New(nil)
	ranges := prefixes(t, "10.244.1.0/24", "fd00:1::/64")
	records := []network.Pod{
		{ID: stays.id, Space: stays.Path(), Addresses: stays.addresses, Ports: ports},
		{ID: idOf("lost"), Addresses: []netip.Addr{netip.MustParseAddr("10.244.1.50")}},
	}
	var lost []string
	h.Do(func() (err error) {
		lost, err = after.Restore(ranges, records)
		return err
	})
	if len(lost) != 1 || lost[0] != idOf("lost") {
		t.Errorf("the lost pods are %v", lost)
	}
	h.net = after
	h.Hears(at(addrA, 80), "stays saw "+addrA.String())
	deaf(t, h.Space, at(addrA, 81))
	if text := h.Dump(); strings.Contains(text, network.LinkName(idOf("goes"))) {
		t.Errorf("a cable is left:\n%s", text)
	}
	broken := nettest.New(t)
	broken.Do(func() error { // a link with the name of the pod's link
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "x"})
	})
	if err := network.Within(h.Path(), func() error {
		_, err := after.Add(idOf("broken"), broken.Path(), []network.HostPort{{Protocol: table.TCP, Port: 82, Pod: 8080}})
		return err
	}); err == nil {
		t.Error("a pod was connected although its namespace already has a link eth0")
	}
	h.remove(stays)
	h.remove(stays)
	if text := h.Dump(); text != before {
		t.Errorf("the network is\n%s\nwas\n%s", text, before)
	}
	h.Do(func() error { return after.Remove(idOf("lost")) })
}

func TestANodesRangeChanges(t *testing.T) {
	hosttest.Need(t)
	dock := nettest.NewDock(t)
	h := &host{dock.Host(addrA), t, network.New(nil)}
	if err := h.net.Ready(); !errors.Is(err, network.ErrNoRange) {
		t.Errorf("without a range Ready returns %v", err)
	}
	h.Do(func() error { return h.net.SetRanges(prefixes(t, "10.244.1.0/24", "fd00:1::/64")) })
	old := h.pod("old")
	h.Do(func() error { return h.net.SetRanges(prefixes(t, "10.244.2.0/24", "fd00:2::/64")) })
	young := h.pod("young")
	if got := young.addresses[0].String(); got != "10.244.2.2" {
		t.Errorf("the new pod has %s", got)
	}
	for i := range 2 {
		young.Hears(at(old.addresses[i], 8080), "old saw "+young.addresses[i].String())
		old.Hears(at(young.addresses[i], 8080), "young saw "+old.addresses[i].String())
	}
	h.remove(old)
	h.Do(func() error { return h.net.SetRanges(prefixes(t, "10.244.2.0/24")) })
	if text := h.Dump(); strings.Contains(text, "fd00:1::1") {
		t.Errorf("an address of the earlier range is left:\n%s", text)
	}
}
