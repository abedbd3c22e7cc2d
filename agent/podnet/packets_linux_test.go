package podnet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/testnet"
)

const (
	// askLimit bounds a request between pods. The kernel resends lost packets.
	askLimit = 20 * time.Second
	// noAnswer is how long to wait for an answer that must not come.
	noAnswer = 300 * time.Millisecond
	// port is the port on which pods and other computers answer.
	port = 8080
)

var (
	podsRange = netip.MustParsePrefix("10.244.0.0/16")
	outside   = netip.MustParseAddr("203.0.113.9")
)

// realNode is a Node with one pod.
type realNode struct {
	Node
	computer, pod *testnet.Computer
	podAddress    netip.Addr
}

// newNode creates a Node in the network of a router's bridge, and connects a pod to the Node as the plug-in ptp does.
func newNode(t *testing.T, n Node, router *testnet.Computer, bridge, gateway string) *realNode {
	t.Helper()
	first := n.Range.Masked().Addr().Next()
	r := &realNode{Node: n, computer: testnet.New(t), pod: testnet.New(t), podAddress: first.Next()}
	r.computer.Do(func() error { // Apply writes to /etc
		return errors.Join(unix.Unshare(unix.CLONE_NEWNS|unix.CLONE_FS),
			unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("tmpfs", "/etc", "tmpfs", 0, ""))
	})
	testnet.Cable(router, n.Name, nil, r.computer, "eth0", []string{n.Address.String() + "/24"})
	router.Do(func() error {
		end, err := netlink.LinkByName(n.Name)
		if err != nil {
			return err
		}
		to, err := netlink.LinkByName(bridge)
		if err != nil {
			return err
		}
		return netlink.LinkSetMaster(end, to)
	})
	r.computer.Route("0.0.0.0/0", gateway)
	testnet.Cable(r.computer, "pod", []string{first.String() + "/32"}, r.pod, "eth0",
		[]string{r.podAddress.String() + "/32"})
	connect(r.computer, "pod", r.podAddress)
	connect(r.pod, "eth0", first)
	r.pod.Route("0.0.0.0/0", first.String())
	r.pod.Serve(port, "the pod of "+n.Name)
	return r
}

// connect routes one address to a link, which gets the MTU that Config sets for pods.
func connect(c *testnet.Computer, link string, to netip.Addr) {
	c.Do(func() error {
		l, err := netlink.LinkByName(link)
		if err != nil {
			return err
		}
		route := &netlink.Route{LinkIndex: l.Attrs().Index, Dst: single(to), Scope: netlink.SCOPE_LINK}
		return errors.Join(netlink.RouteAdd(route), netlink.LinkSetMTU(l, l.Attrs().MTU-headers))
	})
}

// apply does what capstan-net does when Nodes change.
func (r *realNode) apply(nodes []Node) {
	r.computer.Do(func() error {
		segments, own, err := Segments(r.Address)
		if err != nil {
			return err
		}
		d, ok := Plan(r.Name, segments, nodes)
		if !ok {
			return errors.New("this Node has nothing to do")
		}
		return d.Apply(own, podsRange)
	})
}

// hears sends a request from a computer, and checks who answers and which source address the answering computer saw.
func hears(t *testing.T, from *testnet.Computer, to netip.Addr, want string) {
	t.Helper()
	if got, err := from.Ask(netip.AddrPortFrom(to, port), askLimit); err != nil || got != want {
		t.Errorf("%s: got %q, %v; want %q", to, got, err, want)
	}
}

// unheard checks that nobody answers.
func unheard(t *testing.T, from *testnet.Computer, to netip.Addr) {
	t.Helper()
	if got, err := from.Ask(netip.AddrPortFrom(to, port), noAnswer); err == nil {
		t.Errorf("%s answers: %q", to, got)
	}
}

// newRouter creates a router between the networks 192.0.2.0/24 and 198.51.100.0/24, each a bridge, and a computer
// outside. The router has no routes to pods.
func newRouter(t *testing.T) *testnet.Computer {
	t.Helper()
	router, far := testnet.New(t), testnet.New(t)
	router.Set("ipv4/ip_forward", "1")
	for name, address := range map[string]string{"here": "192.0.2.1/24", "there": "198.51.100.1/24"} {
		router.Do(func() error {
			bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name, TxQLen: -1}}
			a, err := netlink.ParseAddr(address)
			if err != nil {
				return err
			}
			return errors.Join(netlink.LinkAdd(bridge), netlink.AddrAdd(bridge, a), netlink.LinkSetUp(bridge))
		})
	}
	testnet.Cable(router, "out", []string{"203.0.113.1/24"}, far, "eth0", []string{outside.String() + "/24"})
	far.Route("192.0.2.0/24", "203.0.113.1")
	far.Route("198.51.100.0/24", "203.0.113.1")
	far.Serve(port, "outside")
	return router
}

// TestPacketsOfPods sends packets between pods of three Nodes, two in one network and one behind a router, and from
// pods to a computer outside of the cluster.
func TestPacketsOfPods(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make networks")
	}
	router := newRouter(t)
	nodes := []Node{
		node("one", "192.0.2.11", "10.244.0.0/24"), node("two", "192.0.2.12", "10.244.1.0/24"),
		node("far", "198.51.100.7", "10.244.2.0/24"),
	}
	one := newNode(t, nodes[0], router, "here", "192.0.2.1")
	two := newNode(t, nodes[1], router, "here", "192.0.2.1")
	far := newNode(t, nodes[2], router, "there", "198.51.100.1")
	all := []*realNode{one, two, far}
	unheard(t, one.pod, far.podAddress)
	unheard(t, one.pod, outside)
	for range 2 { // the second time, apply changes nothing
		for _, n := range all {
			n.apply(nodes)
		}
	}
	for _, from := range all {
		for _, to := range all {
			if from != to {
				hears(t, from.pod, to.podAddress, fmt.Sprintf("the pod of %s saw %s", to.Name, from.podAddress))
			}
		}
		hears(t, from.pod, outside, fmt.Sprintf("outside saw %s", from.Address))
	}
	// The source of a Node's own packets is its address on the link they take: the tunnel, or the network of both Nodes.
	hears(t, one.computer, far.podAddress, "the pod of far saw 10.244.0.0")
	hears(t, one.computer, two.podAddress, "the pod of two saw 192.0.2.11")
	full(t, one, far)

	one.apply(nodes[:2]) // the far Node is gone, and so are its route and the tunnel
	one.computer.Do(func() error {
		var missing netlink.LinkNotFoundError
		if _, err := netlink.LinkByName(Tunnel); !errors.As(err, &missing) {
			t.Errorf("the tunnel exists although it leads to no Node: %v", err)
		}
		return nil
	})
	unheard(t, one.pod, far.podAddress)
	hears(t, one.pod, two.podAddress, fmt.Sprintf("the pod of two saw %s", one.podAddress))

	// The far Node comes back with another address.
	far.Address = netip.MustParseAddr("198.51.100.8")
	far.computer.Do(func() error {
		l, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		return errors.Join(
			netlink.AddrDel(l, &netlink.Addr{IPNet: &net.IPNet{IP: nodes[2].Address.AsSlice(), Mask: net.CIDRMask(24, 32)}}),
			netlink.AddrAdd(l, &netlink.Addr{IPNet: &net.IPNet{IP: far.Address.AsSlice(), Mask: net.CIDRMask(24, 32)}}))
	})
	far.computer.Route("0.0.0.0/0", "198.51.100.1")
	nodes[2] = far.Node
	for _, n := range all {
		n.apply(nodes)
	}
	hears(t, one.pod, far.podAddress, fmt.Sprintf("the pod of far saw %s", one.podAddress))
	hears(t, far.pod, two.podAddress, fmt.Sprintf("the pod of two saw %s", far.podAddress))
	hears(t, far.pod, outside, "outside saw 198.51.100.8")
}

// full sends the largest packet that a pod's link accepts. No hop may fragment it.
func full(t *testing.T, from, to *realNode) {
	t.Helper()
	var packets net.PacketConn
	to.pod.Do(func() (err error) {
		packets, err = net.ListenPacket("udp", fmt.Sprintf("%s:%d", to.podAddress, port))
		return err
	})
	defer packets.Close()
	const most = 1500 - headers - 20 - 8 // without the headers of IPv4 and UDP
	from.pod.Do(func() error {
		conn, err := net.Dial("udp", packets.LocalAddr().String())
		if err != nil {
			return err
		}
		defer conn.Close()
		raw, err := conn.(*net.UDPConn).SyscallConn()
		if err != nil {
			return err
		}
		if err := raw.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
		}); err != nil {
			return err
		}
		if _, tooLarge := conn.Write(make([]byte, most+1)); tooLarge == nil {
			t.Errorf("a pod's link takes a packet of more than %d bytes", 1500-headers)
		}
		_, sendErr := conn.Write(make([]byte, most))
		return errors.Join(err, sendErr)
	})
	if err := packets.SetReadDeadline(time.Now().Add(askLimit)); err != nil {
		t.Fatal(err)
	}
	if n, _, err := packets.ReadFrom(make([]byte, 1<<16)); err != nil || n != most {
		t.Errorf("a full packet: %d of %d bytes, %v", n, most, err)
	}
}
