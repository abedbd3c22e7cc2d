//go:build linux

package network

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/dock/testns"
)

const spoofPort = 5000

// ear records what arrives by UDP at a port of any address.
type ear struct {
	mu    sync.Mutex
	heard []string // TEXT from ADDRESS
}

func listen(network string) (*ear, error) {
	conn, err := net.ListenUDP(network, &net.UDPAddr{Port: spoofPort})
	if err != nil {
		return nil, err
	}
	e := &ear{}
	go func() {
		buffer := make([]byte, 1024)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			e.mu.Lock()
			e.heard = append(e.heard, string(buffer[:n])+" from "+from.Addr().Unmap().WithZone("").String())
			e.mu.Unlock()
		}
	}()
	return e, nil
}

func (e *ear) all() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.heard)
}

func say(from, to, text string) error {
	d := net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(from)}}
	conn, err := d.Dial("udp", net.JoinHostPort(to, fmt.Sprint(spoofPort)))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write([]byte(text))
	return err
}

// peer is a host whose root follows the test's orders.
type peer struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Reader
}

func startPeer(t *testing.T, k Kernel, a netip.Addr) *peer {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestAsPeer$")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), testns.Child, "AS_PEER="+a.String())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	apply(t, k, PlanLink(a, cmd.Process.Pid))
	p := &peer{t, in, bufio.NewReader(out)}
	p.do("begin")
	return p
}

// try makes the host execute a command and returns the host's answer.
func (p *peer) try(words ...string) string {
	p.t.Helper()
	fmt.Fprintln(p.in, strings.Join(words, " "))
	answer, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatalf("%v: %v", words, err)
	}
	return strings.TrimSpace(answer)
}

func (p *peer) do(words ...string) {
	p.t.Helper()
	if answer := p.try(words...); answer != "ok" {
		p.t.Fatalf("%v: %s", words, answer)
	}
}

// TestAsPeer is the child of startPeer.
func TestAsPeer(t *testing.T) {
	if os.Getenv("AS_PEER") == "" {
		t.Skip("this is the child of TestAHostHasItsOwnAddressesOnly")
	}
	own := addrOf(os.Getenv("AS_PEER"))
	k := open(t)
	var ears *ear
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		var err error
		switch words[0] {
		case "begin":
			apply(t, k, PlanHost(own))
			ears, err = listen("udp")
		case "take":
			err = k.EnsureAddress(HostLink, netip.PrefixFrom(addrOf(words[1]), 32))
		case "ipv6":
			err = k.SetSysctl("ipv6/conf/"+HostLink+"/disable_ipv6", "0", false)
			time.Sleep(2 * time.Second) // for its link-local address
		case "say":
			err = say(words[1], words[2], words[3])
		case "claim":
			err = claimByARP(addrOf(words[1]), MAC(own))
		case "heard":
			fmt.Println(strings.Join(ears.all(), ";"))
			continue
		}
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println("ok")
	}
}

// claimByARP announces to everybody that an address has this MAC, both as a reply and as a request.
func claimByARP(a netip.Addr, mac net.HardwareAddr) error {
	link, err := net.InterfaceByName(HostLink)
	if err != nil {
		return err
	}
	protocol := binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, unix.ETH_P_ARP))
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, int(protocol))
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	everybody := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	for _, operation := range []byte{1, 2} {
		frame := slices.Concat(everybody, mac, []byte{0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, operation}, mac, a.AsSlice(),
			everybody, a.AsSlice())
		to := &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: link.Index, Halen: 6}
		copy(to.Addr[:], everybody)
		if err := unix.Sendto(fd, frame, 0, to); err != nil {
			return err
		}
	}
	return nil
}

// A host can send from its own address and from ranges routed to it. With any other address it reaches nobody and
// attracts nobody's traffic. IPv6 packets reach nobody.
func TestAHostHasItsOwnAddressesOnly(t *testing.T) {
	k := open(t)
	apply(t, k, PlanDock())
	attacker, victim, balancer, pod := "10.231.1.21", "10.231.1.22", "10.231.16.1", "10.244.7.1"
	apply(t, k, PlanBalancer(addrOf(balancer)))
	dock, err := listen("udp4")
	if err != nil {
		t.Fatal(err)
	}
	a, v := startPeer(t, k, addrOf(attacker)), startPeer(t, k, addrOf(victim))
	heard := func(who func() []string, text string) bool { return slices.Contains(who(), text) }
	byVictim := func() []string { return strings.Split(v.try("heard"), ";") }
	byAttacker := func() []string { return strings.Split(a.try("heard"), ";") }
	arrives := func(who func() []string, text string) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); !heard(who, text); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%q did not arrive: %v", text, who())
			}
		}
	}
	usual := func(when string) {
		t.Helper()
		a.do("say", attacker, victim, "hello-"+when)
		arrives(byVictim, "hello-"+when+" from "+attacker)
		v.do("say", victim, attacker, "thanks-"+when)
		arrives(byAttacker, "thanks-"+when+" from "+victim)
		for _, to := range []string{Gateway.String(), balancer} {
			a.do("say", attacker, to, "hello-"+when+"-"+to)
			arrives(dock.all, "hello-"+when+"-"+to+" from "+attacker)
		}
		for _, to := range []string{victim, attacker} {
			if err := say("", to, "dock-"+when); err != nil {
				t.Fatal(err)
			}
		}
		arrives(byVictim, "dock-"+when+" from "+Gateway.String())
		arrives(byAttacker, "dock-"+when+" from "+Gateway.String())
	}
	usual("first")
	for _, foreign := range []string{victim, Gateway.String(), balancer, "10.231.1.99", pod, "192.0.2.1"} {
		a.do("take", foreign)
		a.do("claim", foreign)
		for _, to := range []string{victim, Gateway.String(), balancer} {
			_ = a.try("say", foreign, to, "spoofed") // it reaches itself at an address that it has taken
		}
	}
	a.do("ipv6")
	v.do("ipv6")
	_ = a.try("say", "::", "ff02::1%"+HostLink, "spoofed")
	for _, who := range []func() []string{dock.all, byVictim} {
		if all := strings.Join(who(), ";"); strings.Contains(all, "spoofed") {
			t.Errorf("a packet from a foreign address arrived: %s", all)
		}
	}
	// Only the attacker has lost its route to those addresses.
	if err := say("", victim, "still"); err != nil {
		t.Fatal(err)
	}
	arrives(byVictim, "still from "+Gateway.String())
	for _, to := range []string{Gateway.String(), balancer} {
		v.do("say", victim, to, "still-"+to)
		arrives(dock.all, "still-"+to+" from "+victim)
	}
	if all := strings.Join(byAttacker(), ";"); strings.Contains(all, "still") {
		t.Errorf("the attacker got packets for others: %s", all)
	}
	// A host can use an address that is routed to it, even one that another host could not use.
	third := startPeer(t, k, addrOf("10.231.1.23"))
	routed, holder := netip.MustParsePrefix("10.244.7.0/24"), addrOf("10.231.1.23")
	apply(t, k, []Op{path{LinkName(holder), routed, holder, Gateway}})
	third.do("take", pod)
	v.do("say", victim, pod, "to-the-pod")
	arrives(func() []string { return strings.Split(third.try("heard"), ";") }, "to-the-pod from "+victim)
	third.do("say", pod, victim, "of-the-pod")
	arrives(byVictim, "of-the-pod from "+pod)
}
