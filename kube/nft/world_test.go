//go:build linux

package nft_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/kubernetes/pkg/proxy/nftables"
	proxyutil "k8s.io/kubernetes/pkg/proxy/util"

	"github.com/capstan-dev/capstan/kube/network"
	"github.com/capstan-dev/capstan/kube/network/nettest"
	"github.com/capstan-dev/capstan/kube/network/routes"
)

// cluster is two Nodes that run kube-proxy's own, unmodified library. That library runs our nft.
type cluster struct {
	t     testing.TB
	dock  *nettest.Dock
	nodes []*node
}

// node is one host, with one proxier for each family.
type node struct {
	*nettest.Space
	cluster *cluster
	routes.Node
	net      *network.Network
	proxiers []*nftables.Proxier
}

// pod is a pod of a node.
type pod struct {
	*nettest.Space
	node      *node
	name      string
	addresses []netip.Addr // of IPv4 and IPv6
}

func newCluster(t testing.TB) *cluster {
	t.Helper()
	c := &cluster{t: t, dock: nettest.NewDock(t)}
	var all []routes.Node
	for i := 1; i <= 2; i++ {
		address := netip.AddrFrom4([4]byte{10, 231, 1, byte(i)})
		ranges, err := network.ParseRanges([]string{fmt.Sprintf("10.244.%d.0/24", i), fmt.Sprintf("fd00:244:0:%d::/64", i)})
		if err != nil {
			t.Fatal(err)
		}
		n := &node{Space: c.dock.Host(address), cluster: c, net: network.New(nil)}
		n.Node = routes.Node{Name: fmt.Sprintf("n%d", i), Address: address, Ranges: ranges}
		n.Do(func() error { return n.net.SetRanges(ranges) })
		c.nodes, all = append(c.nodes, n), append(all, n.Node)
	}
	for _, n := range c.nodes {
		want, _, _ := routes.Plan(n.Name, nil, all)
		n.Do(func() error {
			_, err := routes.Apply(want)
			return err
		})
		n.proxy()
	}
	return c
}

// proxy creates the Node's proxiers.
func (n *node) proxy() {
	n.Do(func() error {
		for _, f := range []struct {
			family corev1.IPFamily
			pods   string
			own    net.IP
		}{
			{corev1.IPv4Protocol, "10.244.0.0/16", n.Address.AsSlice()},
			{corev1.IPv6Protocol, "fd00:244::/48", network.Gateway(n.Ranges[1]).AsSlice()},
		} {
			p, err := nftables.NewProxier(context.Background(), f.family, time.Hour, time.Hour, false, 14,
				proxyutil.NewDetectLocalByCIDR(f.pods), n.Name, f.own, events.NewFakeRecorder(100), nil, nil, false)
			if err != nil {
				return err
			}
			p.OnServiceCIDRsChanged([]string{"10.96.0.0/16", "fd00:96::/112"})
			n.proxiers = append(n.proxiers, p)
		}
		return nil
	})
}

// each calls f with each proxier, in its Node's namespace, and then makes the proxier change the kernel.
func (c *cluster) each(f func(p *nftables.Proxier)) {
	c.t.Helper()
	for _, n := range c.nodes {
		n.Do(func() error {
			for _, p := range n.proxiers {
				f(p)
				p.OnEndpointSlicesSynced()
				p.OnServiceSynced() // executes pending changes at once
			}
			return nil
		})
	}
}

// pod creates a pod that answers at port 8080.
func (n *node) pod(name string) *pod {
	n.cluster.t.Helper()
	p := n.quiet(name)
	p.Serve(8080, name)
	return p
}

// quiet creates a pod that does nothing.
func (n *node) quiet(name string) *pod {
	t := n.cluster.t
	t.Helper()
	p := &pod{Space: nettest.New(t), node: n, name: name}
	n.Do(func() (err error) {
		p.addresses, err = n.net.Add(fmt.Sprintf("%x", name+"..........."), p.Path(), nil)
		return err
	})
	return p
}

// service returns a Service with TCP port 80 and UDP port 53, both leading to port 8080 of pods.
func service(name, address string, change func(*corev1.ServiceSpec)) *corev1.Service {
	family := corev1.IPv4Protocol
	if netip.MustParseAddr(address).Is6() {
		family = corev1.IPv6Protocol
	}
	local := corev1.ServiceInternalTrafficPolicyCluster
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: address, ClusterIPs: []string{address},
			IPFamilies: []corev1.IPFamily{family}, SessionAffinity: corev1.ServiceAffinityNone,
			InternalTrafficPolicy: &local,
			Ports: []corev1.ServicePort{
				{Name: "web", Protocol: corev1.ProtocolTCP, Port: 80},
				{Name: "names", Protocol: corev1.ProtocolUDP, Port: 53},
			},
		},
	}
	if change != nil {
		change(&s.Spec)
	}
	return s
}

// slice returns the endpoints of a Service.
func slice(s *corev1.Service, pods ...*pod) *discoveryv1.EndpointSlice {
	kind, at := discoveryv1.AddressTypeIPv4, 0
	if s.Spec.IPFamilies[0] == corev1.IPv6Protocol {
		kind, at = discoveryv1.AddressTypeIPv6, 1
	}
	e := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: s.Name + "-x", Labels: map[string]string{discoveryv1.LabelServiceName: s.Name},
		},
		AddressType: kind,
	}
	port := int32(8080)
	for _, p := range s.Spec.Ports {
		e.Ports = append(e.Ports, discoveryv1.EndpointPort{Name: &p.Name, Port: &port, Protocol: &p.Protocol})
	}
	ready := true
	for _, p := range pods {
		e.Endpoints = append(e.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{p.addresses[at].String()}, NodeName: &p.node.Name,
			Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &ready},
		})
	}
	return e
}

// has creates a Service with pods.
func (c *cluster) has(s *corev1.Service, pods ...*pod) {
	c.t.Helper()
	e := slice(s, pods...)
	c.each(func(p *nftables.Proxier) {
		p.OnServiceAdd(s)
		p.OnEndpointSliceAdd(e)
	})
}
