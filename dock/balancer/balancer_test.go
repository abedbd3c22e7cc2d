package balancer

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sort"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	before := runtime.NumGoroutine()
	code := m.Run()
	for limit := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			buf := make([]byte, 1<<16)
			fmt.Fprintf(os.Stderr, "goroutines are left:\n%s", buf[:runtime.Stack(buf, true)])
			code = 1
			break
		}
	}
	os.Exit(code)
}

// echo answers each connection with its name and a newline, then echoes until the peer half-closes.
type echo struct {
	net.Listener
	name string
}

func newEcho(t *testing.T, name, addr string) *echo {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{l, name}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				fmt.Fprintln(c, name)
				io.Copy(c, c)
			}()
		}
	}()
	return e
}

func (e *echo) addr() string { return e.Addr().String() }

func serve(t *testing.T, backends ...string) *Balancer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := Serve(l, backends...)
	t.Cleanup(b.Close)
	return b
}

func dial(t *testing.T, b *Balancer) (*net.TCPConn, *bufio.Reader) {
	t.Helper()
	c, err := net.DialTimeout("tcp", b.Addr().String(), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(10 * time.Second))
	return c.(*net.TCPConn), bufio.NewReader(c)
}

// who returns the name of the backend that answers a new connection, or "".
func who(t *testing.T, b *Balancer) string {
	t.Helper()
	c, r := dial(t, b)
	defer c.Close()
	line, _ := r.ReadString('\n')
	return strings.TrimSpace(line)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(10 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

func TestBackendsTakeTurns(t *testing.T) {
	b := serve(t, newEcho(t, "one", "127.0.0.1:0").addr(), newEcho(t, "two", "127.0.0.1:0").addr(),
		newEcho(t, "three", "127.0.0.1:0").addr())
	var got []string
	for range 6 {
		got = append(got, who(t, b))
	}
	sort.Strings(got)
	if s := strings.Join(got, " "); s != "one one three three two two" {
		t.Errorf("six connections went to %s", s)
	}
}

func TestDeadBackendIsSkippedAndComesBack(t *testing.T) {
	dead := newEcho(t, "dead", "127.0.0.1:0")
	addr := dead.addr()
	dead.Close()
	b := serve(t, addr, newEcho(t, "alive", "127.0.0.1:0").addr())
	for range 4 {
		if got := who(t, b); got != "alive" {
			t.Fatalf("a connection went to %q", got)
		}
	}
	if _, down := b.Backends(); len(down) != 1 || down[0] != addr {
		t.Errorf("down are %v, want %s", down, addr)
	}
	newEcho(t, "risen", addr)
	eventually(t, "the backend that accepts again gets connections", func() bool { return who(t, b) == "risen" })
}

func TestAllDownAreTriedAtOnceWhenOneAccepts(t *testing.T) {
	dead := newEcho(t, "dead", "127.0.0.1:0")
	addr := dead.addr()
	dead.Close()
	b := serve(t, addr)
	if got := who(t, b); got != "" {
		t.Fatalf("a dead backend answered %q", got)
	}
	newEcho(t, "risen", addr)
	if got := who(t, b); got != "risen" {
		t.Errorf("the first connection after the backend came back went to %q", got)
	}
}

func TestRemovedBackendLosesItsConnections(t *testing.T) {
	one, two := newEcho(t, "one", "127.0.0.1:0"), newEcho(t, "two", "127.0.0.1:0")
	b := serve(t, one.addr())
	_, gone := dial(t, b)
	gone.ReadString('\n')
	b.SetBackends(one.addr(), two.addr())
	b.SetBackends(two.addr())
	if _, err := gone.ReadByte(); err == nil {
		t.Error("the connection to the removed backend still delivers")
	}
	c, kept := dial(t, b)
	kept.ReadString('\n')
	b.SetBackends(two.addr(), one.addr())
	fmt.Fprintln(c, "still here")
	if line, err := kept.ReadString('\n'); err != nil || line != "still here\n" {
		t.Errorf("the connection to the kept backend: %q, %v", line, err)
	}
}

func TestNoBackendsMeansClosedAtOnce(t *testing.T) {
	if got := who(t, serve(t)); got != "" {
		t.Errorf("a balancer without backends answered %q", got)
	}
}

func TestHalfCloseIsPassedOn(t *testing.T) {
	b := serve(t, newEcho(t, "one", "127.0.0.1:0").addr())
	c, r := dial(t, b)
	payload := strings.Repeat("x", 1<<20)
	go func() {
		io.WriteString(c, payload)
		c.CloseWrite()
	}()
	got, err := io.ReadAll(r)
	if err != nil || string(got) != "one\n"+payload {
		t.Errorf("got %d bytes, %v; want %d", len(got), err, 4+len(payload))
	}
}

func TestCloseEndsConnections(t *testing.T) {
	b := serve(t, newEcho(t, "one", "127.0.0.1:0").addr())
	_, r := dial(t, b)
	r.ReadString('\n')
	b.Close()
	if _, err := r.ReadByte(); err == nil {
		t.Error("the connection still delivers")
	}
	if _, err := net.DialTimeout("tcp", b.Addr().String(), time.Second); err == nil {
		t.Error("the closed balancer still accepts")
	}
	b.SetBackends("127.0.0.1:1") // must not start anything
}

func TestTooManyConnectionsAreClosed(t *testing.T) {
	b := serve(t, newEcho(t, "one", "127.0.0.1:0").addr())
	for range MaxConns {
		b.slots <- struct{}{}
	}
	if got := who(t, b); got != "" {
		t.Errorf("connection %d was forwarded", MaxConns+1)
	}
	<-b.slots
	eventually(t, "a free slot is used", func() bool { return who(t, b) == "one" })
	for range MaxConns - 1 {
		<-b.slots
	}
}
