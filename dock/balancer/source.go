package balancer

import (
	"fmt"
	"net"
	"net/netip"
	"time"
)

// announceLimit bounds how long a backend may take to accept a header of a few bytes.
const announceLimit = 5 * time.Second

// sourceOf returns the source address of a connection.
func sourceOf(conn net.Conn) netip.Addr { return addrPort(conn.RemoteAddr()).Addr() }

// addrPort returns the address of one end of a TCP connection. It never returns IPv4 as mapped IPv6.
func addrPort(a net.Addr) netip.AddrPort {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	at := tcp.AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port())
}

// enter counts a connection if there is room for it, and reports whether there was.
func (b *Balancer) enter(source netip.Addr) bool {
	if b.options.PerSource <= 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sources[source] >= b.options.PerSource {
		return false
	}
	b.sources[source]++
	return true
}

// leave reverses enter when a connection ends.
func (b *Balancer) leave(source netip.Addr) {
	if b.options.PerSource <= 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sources[source]--; b.sources[source] <= 0 {
		delete(b.sources, source)
	}
}

// announce tells the server where the client's connection comes from.
func announce(server, client net.Conn) error {
	if err := server.SetWriteDeadline(time.Now().Add(announceLimit)); err != nil {
		return err
	}
	if _, err := fmt.Fprint(server, header(addrPort(client.RemoteAddr()), addrPort(client.LocalAddr()))); err != nil {
		return err
	}
	return server.SetWriteDeadline(time.Time{})
}

// header returns a PROXY protocol version 1 header. Pure.
func header(from, to netip.AddrPort) string {
	family := "TCP4"
	if from.Addr().Is6() {
		family = "TCP6"
	}
	if !from.IsValid() || !to.IsValid() || from.Addr().Is6() != to.Addr().Is6() {
		return "PROXY UNKNOWN\r\n"
	}
	return fmt.Sprintf("PROXY %s %s %s %d %d\r\n", family, from.Addr(), to.Addr(), from.Port(), to.Port())
}
