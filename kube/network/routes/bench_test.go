//go:build linux

package routes_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/kube/internal/hosttest"
	"github.com/capstan-dev/capstan/kube/network/nettest"
)

// path connects two namespaces.
type path struct {
	from, to *nettest.Space
	address  netip.Addr
}

// paths returns the paths of pods' packets and, for comparison, paths without pods.
func paths(b *testing.B) map[string]path {
	b.Helper()
	hosttest.Need(b)
	dock := nettest.NewDock(b)
	one, two := newHost(b, dock, 1, 1), newHost(b, dock, 1, 2)
	know(one, two)
	near, beside, far := one.pod("near"), one.pod("beside"), two.pod("far")
	return map[string]path{
		"1 loopback":           {one.Space, one.Space, netip.MustParseAddr("127.0.0.1")},
		"2 host to dock":       {one.Space, dock.Space, nettest.Gateway},
		"3 host to host":       {one.Space, two.Space, two.node.Address},
		"4 pods of one host":   {near.Space, beside.Space, beside.v4},
		"5 pods of two hosts":  {near.Space, far.Space, far.v4},
		"6 the same by IPv6":   {near.Space, far.Space, far.v6},
		"7 pod to a host's IP": {near.Space, two.Space, two.node.Address},
	}
}

// BenchmarkStream sends 64 MiB over one TCP connection.
func BenchmarkStream(b *testing.B) {
	const size = 64 << 20
	for name, p := range paths(b) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				if got, err := nettest.Stream(p.from, p.to, netip.AddrPortFrom(p.address, 7000), size); err != nil || got != size {
					b.Fatalf("got %d bytes, %v", got, err)
				}
			}
		})
	}
}

// BenchmarkRequest makes each request over a new TCP connection.
func BenchmarkRequest(b *testing.B) {
	served := map[*nettest.Space]bool{}
	for name, p := range paths(b) {
		if !served[p.to] {
			served[p.to] = true
			p.to.Serve(7001, "it")
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := p.from.Ask("tcp", netip.Addr{}, netip.AddrPortFrom(p.address, 7001), limit); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

const limit = 10 * time.Second
