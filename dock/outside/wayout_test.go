//go:build linux

package outside

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTheWayOutLeadsToOtherComputers(t *testing.T) {
	_, own, err := net.ParseCIDR("192.0.2.0/24")
	if err != nil {
		t.Fatal(err)
	}
	own.IP = net.IPv4(192, 0, 2, 1)
	w := &wayOut{machine: func() ([]net.Addr, error) { return []net.Addr{own}, nil }}
	for address, want := range map[string]bool{
		"192.0.2.11": true, "10.0.0.1": true, "2001:db8::1": true, "192.0.2.1": false, "::ffff:192.0.2.1": false,
		"127.0.0.1": false, "127.8.8.8": false, "::1": false, "::ffff:127.0.0.1": false, "0.0.0.0": false, "::": false,
		"169.254.169.254": false, "fe80::1": false, "fe80::1%eth0": false, "224.0.0.1": false, "255.255.255.255": false,
	} {
		if got := w.allowed(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}

// The proxy refuses everything but a CONNECT to another computer, and forwards connections in both directions.
func TestWayOut(t *testing.T) {
	dir := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		keepWayOut(ctx, Config{Dir: dir, Log: log.New(io.Discard, "", 0)})
	}()
	defer func() {
		stop()
		<-ended
	}()
	ask := func(request string) (int, string) {
		var conn net.Conn
		for limit := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			var err error
			if conn, err = net.Dial("unix", filepath.Join(dir, WayOut)); err == nil {
				break
			}
			if time.Now().After(limit) {
				t.Fatal(err)
			}
		}
		defer conn.Close()
		if _, err := fmt.Fprint(conn, request); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
		return response.StatusCode, string(body)
	}
	for request, want := range map[string]int{
		"GET http://192.0.2.1/ HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n":               http.StatusMethodNotAllowed,
		"CONNECT localhost:22 HTTP/1.1\r\nHost: localhost:22\r\n\r\n":             http.StatusBadRequest,
		"CONNECT 127.1:22 HTTP/1.1\r\nHost: 127.1:22\r\n\r\n":                     http.StatusBadRequest,
		"CONNECT example.com HTTP/1.1\r\nHost: example.com\r\n\r\n":               http.StatusBadRequest,
		"CONNECT example.com:ssh HTTP/1.1\r\nHost: example.com:ssh\r\n\r\n":       http.StatusBadRequest,
		"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: 127.0.0.1:22\r\n\r\n":             http.StatusForbidden,
		"CONNECT [::1]:22 HTTP/1.1\r\nHost: [::1]:22\r\n\r\n":                     http.StatusForbidden,
		"CONNECT 169.254.169.254:80 HTTP/1.1\r\nHost: 169.254.169.254:80\r\n\r\n": http.StatusForbidden,
	} {
		if code, body := ask(request); code != want {
			t.Errorf("%q: %d %s", strings.SplitN(request, "\r", 2)[0], code, body)
		}
	}
}

// A connection is forwarded in both directions, and ends when either side closes.
func TestTheWayOutCarries(t *testing.T) {
	far, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	go func() {
		conn, err := far.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		text, _ := io.ReadAll(conn)
		fmt.Fprintf(conn, "heard %s", text)
	}()
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wayOut{slots: make(chan struct{}, 1), carried: map[net.Conn]bool{}, open: func(netip.Addr) bool { return true },
		machine: func() ([]net.Addr, error) { return nil, nil }}
	server := &http.Server{Handler: w}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(front)
	}()
	defer func() {
		server.Close()
		w.end()
		<-served
	}()
	conn, err := net.Dial("tcp", front.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "CONNECT %[1]s HTTP/1.1\r\nHost: %[1]s\r\n\r\nhello", far.Addr())
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(all), "HTTP/1.1 200") || !strings.HasSuffix(string(all), "heard hello") {
		t.Errorf("got %q, %v", all, err)
	}
}

// TestTheWayOutByName checks that the proxy connects only to those addresses of a name that belong to other computers,
// and that it resolves the name only once.
func TestTheWayOutByName(t *testing.T) {
	far, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	go func() {
		for {
			conn, err := far.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(conn, "here")
			conn.Close()
		}
	}()
	_, port, err := net.SplitHostPort(far.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	// 127.0.0.1 and 127.0.0.2 represent other computers; nothing listens at 127.0.0.2.
	w := &wayOut{open: func(a netip.Addr) bool { return a.String() != "192.0.2.1" }}
	for name, c := range map[string]struct {
		addresses []string
		fails     int
	}{
		"api.example":      {addresses: []string{"127.0.0.1"}},
		"two.example":      {addresses: []string{"127.0.0.2", "127.0.0.1"}},
		"mixed.example":    {addresses: []string{"192.0.2.1", "127.0.0.1"}},
		"machine.example":  {addresses: []string{"192.0.2.1"}, fails: http.StatusForbidden},
		"silent.example":   {addresses: []string{"127.0.0.2"}, fails: http.StatusBadGateway},
		"unknown.example":  {fails: http.StatusBadGateway},
		"localhost":        {addresses: []string{"127.0.0.1"}, fails: http.StatusBadRequest},
		"2130706433":       {addresses: []string{"127.0.0.1"}, fails: http.StatusBadRequest},
		"no name.example":  {addresses: []string{"127.0.0.1"}, fails: http.StatusBadRequest},
		"127.0.0.1%zone.a": {addresses: []string{"127.0.0.1"}, fails: http.StatusBadRequest},
	} {
		looked := 0
		w.lookup = func(_ context.Context, _, host string) (found []netip.Addr, err error) {
			if looked++; host != name || c.addresses == nil {
				return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
			}
			for _, a := range c.addresses {
				found = append(found, netip.MustParseAddr(a))
			}
			return found, nil
		}
		conn, code, err := w.dial(name, port)
		if code != c.fails || (err == nil) != (c.fails == 0) || looked > 1 {
			t.Errorf("%s: %d, %v, after %d look-ups", name, code, err, looked)
		}
		if err == nil {
			if text, err := io.ReadAll(conn); err != nil || string(text) != "here" {
				t.Errorf("%s: the server sent %q, %v", name, text, err)
			}
			conn.Close()
		}
	}
}
