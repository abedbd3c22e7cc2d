package balancer

import (
	"bufio"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"
)

func TestHeader(t *testing.T) {
	for name, c := range map[string]struct{ from, to, want string }{
		"IPv4":  {"192.0.2.9:50001", "192.0.2.1:7444", "PROXY TCP4 192.0.2.9 192.0.2.1 50001 7444\r\n"},
		"IPv6":  {"[2001:db8::9]:50001", "[2001:db8::1]:7444", "PROXY TCP6 2001:db8::9 2001:db8::1 50001 7444\r\n"},
		"mixed": {"192.0.2.9:50001", "[2001:db8::1]:7444", "PROXY UNKNOWN\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := header(netip.MustParseAddrPort(c.from), netip.MustParseAddrPort(c.to)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	if got := header(netip.AddrPort{}, netip.AddrPort{}); got != "PROXY UNKNOWN\r\n" {
		t.Errorf("without addresses: got %q", got)
	}
}

// TestABackendLearnsWhereAConnectionComesFrom checks that a backend reads the header first and then all bytes.
func TestABackendLearnsWhereAConnectionComesFrom(t *testing.T) {
	e := newEcho(t, "a", "127.0.0.1:0")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := ServeWith(Options{Announce: true}, l, e.addr())
	t.Cleanup(b.Close)
	c, r := dial(t, b)
	if _, err := io.WriteString(c, "hello\n"); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"a\n", header(netip.MustParseAddrPort(c.LocalAddr().String()), netip.MustParseAddrPort(c.RemoteAddr().String())),
		"hello\n",
	}
	for _, line := range want {
		if got, err := r.ReadString('\n'); err != nil || got != line {
			t.Fatalf("got %q, %v, want %q", got, err, line)
		}
	}
}

// TestOneAddressCantTakeAllConnections checks that connections of one address above the bound are closed, that others
// are served, and that a closed connection makes room.
func TestOneAddressCantTakeAllConnections(t *testing.T) {
	e := newEcho(t, "a", "127.0.0.1:0")
	l, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	b := ServeWith(Options{PerSource: 2}, l, e.addr())
	t.Cleanup(b.Close)
	port := l.Addr().(*net.TCPAddr).Port
	connect := func(from string) (net.Conn, bool) {
		t.Helper()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 5 * time.Second}
		c, err := d.Dial("tcp4", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(port)).String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		_, err = bufio.NewReader(c).ReadString('\n')
		return c, err == nil
	}
	first, served := connect("127.0.0.2")
	if !served {
		t.Fatal("the first connection is not served")
	}
	if _, served := connect("127.0.0.2"); !served {
		t.Fatal("the second connection is not served")
	}
	if _, served := connect("127.0.0.2"); served {
		t.Error("a third connection of one address is served")
	}
	if _, served := connect("127.0.0.3"); !served {
		t.Error("another address is not served")
	}
	first.Close()
	for limit := time.Now().Add(10 * time.Second); ; {
		if _, served := connect("127.0.0.2"); served {
			break
		}
		if time.Now().After(limit) {
			t.Fatal("a connection that ended did not make room for another")
		}
	}
}
