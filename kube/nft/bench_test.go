//go:build linux

package nft_test

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/kube/internal/hosttest"
	"github.com/capstan-dev/capstan/kube/network/nettest"
)

// ways returns the ways to a pod of the same host and of another, both directly and through a Service.
func ways(b *testing.B) (client *pod, all []way) {
	b.Helper()
	hosttest.Need(b)
	c := newCluster(b)
	client = c.nodes[0].quiet("client")
	for i, where := range []string{"one host", "two hosts"} {
		p := c.nodes[i].quiet(where)
		address := netip.AddrFrom4([4]byte{10, 96, 1, byte(i)})
		c.has(service([]string{"near", "far"}[i], address.String(), func(s *corev1.ServiceSpec) {
			s.Ports = s.Ports[:1]
			s.Ports[0].Port = 8080
		}), p)
		all = append(all, way{where + ", directly", p, p.addresses[0]}, way{where + ", Service", p, address})
	}
	return client, all
}

type way struct {
	name    string
	to      *pod
	address netip.Addr
}

// BenchmarkStream sends 64 MiB over one TCP connection.
func BenchmarkStream(b *testing.B) {
	const size = 64 << 20
	client, all := ways(b)
	for _, w := range all {
		b.Run(w.name, func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				got, err := nettest.Stream(client.Space, w.to.Space, netip.AddrPortFrom(w.address, 8080), size)
				if err != nil || got != size {
					b.Fatalf("got %d bytes, %v", got, err)
				}
			}
		})
	}
}

// BenchmarkRequest makes each request over a new TCP connection.
func BenchmarkRequest(b *testing.B) {
	client, all := ways(b)
	for _, w := range all {
		if w.address == w.to.addresses[0] {
			w.to.Serve(8080, "it")
		}
		b.Run(w.name, func(b *testing.B) {
			to := netip.AddrPortFrom(w.address, 8080)
			for b.Loop() {
				if _, err := client.Ask("tcp", netip.Addr{}, to, answerLimit); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
