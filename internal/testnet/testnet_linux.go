// Package testnet makes small networks for tests: computers are network namespaces, and cables connect them. Only tests
// import it.
package testnet

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Computer is a network namespace with a loopback interface. It exists until the test ends.
type Computer struct {
	t    testing.TB
	file *os.File
	work chan func()
}

// New makes a computer. The caller must be root.
func New(t testing.TB) *Computer {
	t.Helper()
	c := &Computer{t: t, work: make(chan func())}
	started := make(chan error)
	var wg sync.WaitGroup
	wg.Go(func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			c.file, err = os.Open("/proc/thread-self/ns/net")
		}
		started <- err
		for f := range c.work {
			f()
		}
	})
	err := <-started
	t.Cleanup(func() {
		close(c.work)
		wg.Wait()
		_ = c.file.Close() // the file is nil if opening it failed
	})
	if err != nil {
		t.Fatalf("making a network namespace: %v", err)
	}
	c.Do(func() error { return setUp("lo") })
	return c
}

// Do calls f on a thread in the computer's network, and fails the test if f returns an error. Sockets that f opens and
// processes that it starts stay in that network.
func (c *Computer) Do(f func() error) {
	c.t.Helper()
	if err := c.Try(f); err != nil {
		c.t.Fatal(err)
	}
}

// Try is like Do, but returns the error of f instead of failing the test.
func (c *Computer) Try(f func() error) error {
	done := make(chan error)
	c.work <- func() { done <- f() }
	return <-done
}

// Cable connects two computers. Each end is a link with a name and addresses such as "192.0.2.1/24".
func Cable(a *Computer, nameA string, addressesA []string, b *Computer, nameB string, addressesB []string) {
	a.t.Helper()
	a.Do(func() error {
		return netlink.LinkAdd(&netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: nameA, TxQLen: -1}, PeerName: nameB,
			PeerNamespace: netlink.NsFd(int(b.file.Fd())),
		})
	})
	a.Do(func() error { return address(nameA, addressesA) })
	b.Do(func() error { return address(nameB, addressesB) })
}

func address(link string, addresses []string) error {
	l, err := netlink.LinkByName(link)
	if err != nil {
		return err
	}
	for _, text := range addresses {
		a, err := netlink.ParseAddr(text)
		if err != nil {
			return err
		}
		if a.IP.To4() == nil {
			a.Flags = unix.IFA_F_NODAD // usable at once
		}
		if err := netlink.AddrAdd(l, a); err != nil {
			return fmt.Errorf("address %s of %s: %w", text, link, err)
		}
	}
	return setUp(link)
}

func setUp(link string) error {
	l, err := netlink.LinkByName(link)
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(l)
}

// Route routes a range of addresses through a gateway, for example "0.0.0.0/0" through "192.0.2.1".
func (c *Computer) Route(to, gateway string) {
	c.t.Helper()
	c.Do(func() error {
		_, dst, err := net.ParseCIDR(to)
		if err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{Dst: dst, Gw: net.ParseIP(gateway)})
	})
}

// Set writes a setting of the network, for example "ipv4/ip_forward".
func (c *Computer) Set(name, value string) {
	c.t.Helper()
	c.Do(func() error { return os.WriteFile("/proc/sys/net/"+name, []byte(value), 0) })
}

// talkLimit limits how long a server takes for one answer.
const talkLimit = 10 * time.Second

// Serve listens on a TCP port of all addresses until the test ends. It answers each connection with "NAME saw ADDRESS",
// where ADDRESS is the caller's. Port 0 picks a free port; Serve returns the port.
func (c *Computer) Serve(port int, name string) int {
	c.t.Helper()
	var l net.Listener
	c.Do(func() (err error) {
		l, err = net.Listen("tcp", fmt.Sprintf("[::]:%d", port))
		return err
	})
	var wg sync.WaitGroup
	c.t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.SetDeadline(time.Now().Add(talkLimit))
			from := netip.MustParseAddrPort(conn.RemoteAddr().String()).Addr().Unmap()
			_, _ = fmt.Fprintf(conn, "%s saw %s", name, from)
			conn.Close()
		}
	})
	return l.Addr().(*net.TCPAddr).Port
}

// Ask connects to a server that Serve started and returns its answer. limit applies to connecting and then again to
// reading the answer.
func (c *Computer) Ask(to netip.AddrPort, limit time.Duration) (answer string, err error) {
	err = c.Try(func() error {
		conn, err := net.DialTimeout("tcp", to.String(), limit)
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
			return err
		}
		read, err := io.ReadAll(io.LimitReader(conn, 1<<10))
		answer = string(read)
		return err
	})
	return answer, err
}
