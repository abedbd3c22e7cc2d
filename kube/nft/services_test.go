//go:build linux

package nft_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/proxy/nftables"

	"github.com/capstan-dev/capstan/kube/internal/hosttest"
	"github.com/capstan-dev/capstan/kube/network/nettest"
)

func at(address string, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(address), port)
}

const answerLimit = 5 * time.Second

// hears sends requests by both protocols, often enough to reach all backends, and checks that each answer is a wanted
// one.
func hears(t *testing.T, from *nettest.Space, address string, want ...string) {
	t.Helper()
	heard := map[string]bool{}
	for i := range 40 {
		protocol, port := "tcp", uint16(80)
		if i%2 == 1 {
			protocol, port = "udp", 53
		}
		got, err := from.Ask(protocol, netip.Addr{}, at(address, port), answerLimit)
		if err != nil || !slices.Contains(want, got) {
			t.Errorf("%s to %s: got %q, %v; want one of %q", protocol, address, got, err, want)
			return
		}
		heard[got] = true
	}
	if len(heard) != len(want) {
		t.Errorf("%s: heard only %v of %q", address, heard, want)
	}
}

// refused checks that a connection is refused at once.
func refused(t *testing.T, from *nettest.Space, to netip.AddrPort) {
	t.Helper()
	if got, err := from.Ask("tcp", netip.Addr{}, to, answerLimit); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("%s: got %q, %v; want it refused", to, got, err)
	}
}

// silent checks that nobody answers.
func silent(t *testing.T, from *nettest.Space, to netip.AddrPort) {
	t.Helper()
	if got, err := from.Ask("tcp", netip.Addr{}, to, time.Second); err == nil || errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("%s: got %q, %v; want no answer", to, got, err)
	}
}

// Unmodified kube-proxy creates Services with our nft; real packets pass between pods, Nodes and outside clients.
func TestServices(t *testing.T) {
	hosttest.Need(t)
	c := newCluster(t)
	one, two := c.nodes[0], c.nodes[1]
	a, b, client := one.pod("a"), two.pod("b"), one.pod("client")
	saw := func(p *pod, who netip.Addr) string { return p.name + " saw " + who.String() }
	me := client.addresses[0]

	t.Run("ClusterIP", func(t *testing.T) {
		c.has(service("plain", "10.96.0.10", nil), a, b)
		hears(t, client.Space, "10.96.0.10", saw(a, me), saw(b, me))
		hears(t, one.Space, "10.96.0.10", saw(a, one.Address), saw(b, one.Address))
		refused(t, client.Space, at("10.96.0.10", 81))
		silent(t, client.Space, at("10.96.0.99", 80))
	})
	t.Run("IPv6", func(t *testing.T) {
		c.has(service("six", "fd00:96::10", nil), a, b)
		hears(t, client.Space, "fd00:96::10", saw(a, client.addresses[1]), saw(b, client.addresses[1]))
	})
	t.Run("NodePort", func(t *testing.T) {
		c.has(service("nodeport", "10.96.0.11", func(s *corev1.ServiceSpec) {
			s.Type, s.ExternalTrafficPolicy = corev1.ServiceTypeNodePort, corev1.ServiceExternalTrafficPolicyCluster
			s.Ports[0].Port, s.Ports[0].NodePort = 8000, 80
			s.Ports[1].Port, s.Ports[1].NodePort = 5300, 53
		}), a, b)
		for _, n := range c.nodes {
			// Both Nodes forward to all pods, which see the Node's address.
			hears(t, c.dock.Space, n.Address.String(), saw(a, n.Address), saw(b, n.Address))
			hears(t, n.Space, n.Address.String(), saw(a, n.Address), saw(b, n.Address))
		}
	})
	t.Run("externalTrafficPolicy Local", func(t *testing.T) {
		c.has(service("outer", "10.96.0.12", func(s *corev1.ServiceSpec) {
			s.Type, s.ExternalTrafficPolicy = corev1.ServiceTypeNodePort, corev1.ServiceExternalTrafficPolicyLocal
			s.Ports = s.Ports[:1]
			s.Ports[0].NodePort = 30080
		}), b)
		got, err := c.dock.Ask("tcp", netip.Addr{}, at(two.Address.String(), 30080), answerLimit)
		if want := saw(b, nettest.Gateway); got != want || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
		silent(t, c.dock.Space, at(one.Address.String(), 30080))
	})
	t.Run("internalTrafficPolicy Local", func(t *testing.T) {
		local := corev1.ServiceInternalTrafficPolicyLocal
		c.has(service("inner", "10.96.0.13", func(s *corev1.ServiceSpec) { s.InternalTrafficPolicy = &local }), a, b)
		hears(t, client.Space, "10.96.0.13", saw(a, me))
		c.has(service("far", "10.96.0.14", func(s *corev1.ServiceSpec) { s.InternalTrafficPolicy = &local }), b)
		silent(t, client.Space, at("10.96.0.14", 80))
	})
	t.Run("session affinity", func(t *testing.T) {
		seconds := int32(600)
		s := service("sticky", "10.96.0.15", func(s *corev1.ServiceSpec) {
			s.SessionAffinity = corev1.ServiceAffinityClientIP
			s.SessionAffinityConfig = &corev1.SessionAffinityConfig{
				ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds},
			}
			s.Ports = s.Ports[:1]
		})
		c.has(s, a, b)
		ask := func() string {
			got, err := client.Ask("tcp", netip.Addr{}, at("10.96.0.15", 80), answerLimit)
			if err != nil {
				t.Error(err)
			}
			return got
		}
		first := ask()
		for range 20 {
			if got := ask(); got != first {
				t.Fatalf("got %q after %q", got, first)
			}
		}
		rest := a
		if strings.HasPrefix(first, "a") {
			rest = b
		}
		before, after := slice(s, a, b), slice(s, rest)
		c.each(func(p *nftables.Proxier) { p.OnEndpointSliceUpdate(before, after) })
		if got := ask(); got != saw(rest, me) {
			t.Errorf("after the client's pod is gone: got %q", got)
		}
	})
	t.Run("hairpin", func(t *testing.T) {
		c.has(service("self", "10.96.0.16", nil), a)
		hears(t, a.Space, "10.96.0.16", saw(a, one.Address))
	})
	t.Run("no pods", func(t *testing.T) {
		s := service("empty", "10.96.0.17", nil)
		c.has(s)
		refused(t, client.Space, at("10.96.0.17", 80))
		refused(t, one.Space, at("10.96.0.17", 80))
		before, after := slice(s), slice(s, b)
		c.each(func(p *nftables.Proxier) { p.OnEndpointSliceUpdate(before, after) })
		hears(t, client.Space, "10.96.0.17", saw(b, me))
	})
	t.Run("UDP follows the pods", func(t *testing.T) {
		s := service("names", "10.96.0.18", nil)
		c.has(s, a)
		// The kernel remembers where packets from this port went.
		from, to := netip.AddrPortFrom(me, 5353), at("10.96.0.18", 53)
		client.HearsFrom(from, to, saw(a, me))
		before, after := slice(s, a), slice(s, b)
		c.each(func(p *nftables.Proxier) { p.OnEndpointSliceUpdate(before, after) })
		client.HearsFrom(from, to, saw(b, me))
		c.each(func(p *nftables.Proxier) { p.OnEndpointSliceDelete(after); p.OnServiceDelete(s) })
		silent(t, client.Space, at("10.96.0.18", 80))
	})
	t.Run("kube-proxy restarts", func(t *testing.T) {
		s, e := service("plain", "10.96.0.10", nil), slice(service("plain", "10.96.0.10", nil), a, b)
		for _, n := range c.nodes {
			n.proxiers = nil
			n.proxy()
		}
		c.each(func(p *nftables.Proxier) { p.OnServiceAdd(s); p.OnEndpointSliceAdd(e) })
		hears(t, client.Space, "10.96.0.10", saw(a, me), saw(b, me))
		silent(t, client.Space, at("10.96.0.16", 80)) // this address answered before
	})
}
