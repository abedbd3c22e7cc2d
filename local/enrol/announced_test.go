package enrol

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

func TestParseHeader(t *testing.T) {
	for line, want := range map[string]string{
		"PROXY TCP4 192.0.2.9 192.0.2.1 50001 7444\r\n":     "192.0.2.9:50001",
		"PROXY TCP6 2001:db8::9 2001:db8::1 50001 7444\r\n": "[2001:db8::9]:50001",
		"PROXY UNKNOWN\r\n":                             "",
		"PROXY TCP4 somewhere 192.0.2.1 50001 7444\r\n": "",
		"PROXY TCP4 192.0.2.9 192.0.2.1 x 7444\r\n":     "",
		"PROXY TCP4 192.0.2.9 192.0.2.1 50001\r\n":      "",
		"PROXY TCP4 fe80::1%x 192.0.2.1 50001 7444\r\n": "",
		"GET / HTTP/1.1\r\n":                            "",
		"PROXY UDP4 192.0.2.9 192.0.2.1 50001 7444\r\n": "",
		"": "",
	} {
		got, err := parseHeader(line)
		if (err == nil) != (want != "") || err == nil && got.String() != want {
			t.Errorf("%q: got %s, %v, want %q", line, got, err, want)
		}
	}
}

// connect returns the client's side of a connection and the connection that the server accepts.
func connect(t *testing.T, open *slots) (client net.Conn, server net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err = net.DialTimeout("tcp", l.Addr().String(), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	server, err = (&announced{l, open}).Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// TestAnnounced: a connection has the address in its header, the bytes after the header follow, and a closed connection
// is not counted.
func TestAnnounced(t *testing.T) {
	open := newSlots(2, 1)
	client, server := connect(t, open)
	if _, err := io.WriteString(client, "PROXY TCP4 192.0.2.9 192.0.2.1 50001 7444\r\nhello"); err != nil {
		t.Fatal(err)
	}
	if got := server.RemoteAddr().String(); got != "192.0.2.9:50001" {
		t.Errorf("the connection comes from %s, want the address in its header", got)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(server, got); err != nil || string(got) != "hello" {
		t.Errorf("after the header, got %q, error %v", got, err)
	}
	second, more := connect(t, open)
	if _, err := io.WriteString(second, "PROXY TCP4 192.0.2.9 192.0.2.1 50002 7444\r\nhello"); err != nil {
		t.Fatal(err)
	}
	if _, err := more.Read(got); err == nil {
		t.Error("a second connection from the same address was read, although the limit is one")
	}
	for range 2 {
		server.Close()
	}
	more.Close()
	if open.sum != 0 {
		t.Errorf("%d connections are still counted after all have ended", open.sum)
	}
}

// TestAnnouncedRefuses: a connection that begins with anything other than a header is not read.
func TestAnnouncedRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"bytes that are not a header": "\x16\x03\x01\x02\n",
		"a header that doesn't end":   "PROXY TCP4 " + strings.Repeat("1", 2*headerLimit),
	} {
		client, server := connect(t, newSlots(2, 2))
		if _, err := io.WriteString(client, text); err != nil {
			t.Fatal(err)
		}
		if _, err := server.Read(make([]byte, 1)); err == nil {
			t.Errorf("%s: the connection was read", name)
		}
	}
}
