//go:build linux

package nft_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/kube/internal/hosttest"
	"github.com/capstan-dev/capstan/kube/network/nettest"
)

// place is where a pod is, with the addresses of the pod and of its Service.
type place struct {
	name            string
	to              *pod
	direct, service netip.Addr
}

// places returns a client, and pods on its host and on another, each with a Service.
func places(b *testing.B) (client *pod, all []place) {
	b.Helper()
	hosttest.Need(b)
	c := newCluster(b)
	client = c.nodes[0].quiet("client")
	for i, name := range []string{"one host", "two hosts"} {
		p := c.nodes[i].quiet(name)
		address := netip.AddrFrom4([4]byte{10, 96, 1, byte(i)})
		c.has(service([]string{"near", "far"}[i], address.String(), func(s *corev1.ServiceSpec) {
			s.Ports = s.Ports[:1]
			s.Ports[0].Port = 8080
		}), p)
		all = append(all, place{name, p, p.addresses[0], address})
	}
	return client, all
}

// compare calls the function way in turn with a pod's own address and with the address of the pod's Service. It reports
// the median amount per second through the Service, and the ratio of that amount to the direct one.
func (p place) compare(b *testing.B, unit string, amount float64, way func(netip.Addr) error) {
	b.Run(p.name+hosttest.Suffix(), func(b *testing.B) {
		took := map[netip.Addr][]time.Duration{}
		turn := []netip.Addr{p.direct, p.service}
		for b.Loop() {
			for _, address := range turn {
				began := time.Now()
				if err := way(address); err != nil {
					b.Fatal(err)
				}
				took[address] = append(took[address], time.Since(began))
			}
			slices.Reverse(turn) // so that neither of the two ways is always the first
		}
		direct, service := median(took[p.direct]), median(took[p.service])
		b.ReportMetric(amount/service.Seconds(), unit+"/s")
		b.ReportMetric(direct.Seconds()/service.Seconds(), "times-direct")
	})
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// BenchmarkServiceStream sends 64 MiB over one TCP connection.
func BenchmarkServiceStream(b *testing.B) {
	const size = 64 << 20
	client, all := places(b)
	for _, p := range all {
		p.compare(b, "MB", size/1e6, func(address netip.Addr) error {
			got, err := nettest.Stream(client.Space, p.to.Space, netip.AddrPortFrom(address, 8080), size)
			if err == nil && got != size {
				err = fmt.Errorf("got %d bytes", got)
			}
			return err
		})
	}
}

// BenchmarkServiceRequest makes each request over a new TCP connection.
func BenchmarkServiceRequest(b *testing.B) {
	client, all := places(b)
	for _, p := range all {
		p.to.Serve(8080, "it")
		p.compare(b, "requests", 1, func(address netip.Addr) error {
			_, err := client.Ask("tcp", netip.Addr{}, netip.AddrPortFrom(address, 8080), answerLimit)
			return err
		})
	}
}
