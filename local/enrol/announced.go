package enrol

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"
)

const (
	// headerLimit is the maximum length of a PROXY protocol version 1 header by its specification; headerWait bounds
	// the wait for the header.
	headerLimit = 107
	headerWait  = 5 * time.Second
)

// announced is a listener whose connections begin with a PROXY protocol version 1 header, which the dock adds to the
// connections that it forwards. Only the dock's own processes can connect, so nobody can forge a source address.
type announced struct {
	net.Listener
	open *slots
}

// Accept does not read the header, so a silent connection delays no other.
func (l *announced) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &carried{Conn: conn, open: l.open}, nil
}

// carried is a connection that the dock forwards. The first call of Read or RemoteAddr reads the header.
type carried struct {
	net.Conn
	open *slots

	header sync.Once
	closed sync.Once
	from   netip.AddrPort
	taken  bool
	err    error
}

// Read returns what follows the header.
func (c *carried) Read(data []byte) (int, error) {
	c.header.Do(c.begin)
	if c.err != nil {
		return 0, c.err
	}
	return c.Conn.Read(data)
}

// RemoteAddr returns the address that the connection came from.
func (c *carried) RemoteAddr() net.Addr {
	c.header.Do(c.begin)
	return net.TCPAddrFromAddrPort(c.from)
}

// Close closes the connection.
func (c *carried) Close() error {
	c.closed.Do(func() {
		c.header.Do(func() { c.err = net.ErrClosed })
		if c.taken {
			c.open.leave(c.from.Addr())
		}
	})
	return c.Conn.Close()
}

var errTooMany = errors.New("too many connections")

// begin reads the header byte by byte, because the bytes after it belong to TLS.
func (c *carried) begin() {
	line, err := readHeader(c.Conn)
	if err == nil {
		c.from, err = parseHeader(line)
	}
	if err == nil {
		if c.taken = c.open.take(c.from.Addr()); !c.taken {
			err = errTooMany
		}
	}
	c.err = err
}

func readHeader(conn net.Conn) (string, error) {
	if err := conn.SetReadDeadline(time.Now().Add(headerWait)); err != nil {
		return "", err
	}
	var line []byte
	for one := make([]byte, 1); len(line) < headerLimit; {
		if _, err := conn.Read(one); err != nil {
			return "", fmt.Errorf("reading the origin of a connection: %w", err)
		}
		if line = append(line, one[0]); one[0] == '\n' {
			return string(line), conn.SetReadDeadline(time.Time{})
		}
	}
	return "", errors.New("reading the origin of a connection: the header does not end")
}

// parseHeader returns the source address in a header. Pure.
func parseHeader(line string) (netip.AddrPort, error) {
	words := strings.Split(strings.TrimSuffix(line, "\r\n"), " ")
	if len(words) != 6 || words[0] != "PROXY" || words[1] != "TCP4" && words[1] != "TCP6" {
		return netip.AddrPort{}, fmt.Errorf("a connection has no header with its origin: %q", line)
	}
	address, err := netip.ParseAddr(words[2])
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("a connection has an invalid origin: %w", err)
	}
	at, err := netip.ParseAddrPort(net.JoinHostPort(words[2], words[4]))
	if err != nil || address.Zone() != "" {
		return netip.AddrPort{}, fmt.Errorf("a connection has an invalid origin: %q", line)
	}
	return at, nil
}
