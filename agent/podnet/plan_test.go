package podnet

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

func node(name, address, pods string) Node {
	n := Node{Name: name}
	if address != "" {
		n.Address = netip.MustParseAddr(address)
	}
	if pods != "" {
		n.Range = netip.MustParsePrefix(pods)
	}
	return n
}

func TestPlan(t *testing.T) {
	segments := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	one := node("one", "192.0.2.11", "10.244.0.0/24")
	for name, c := range map[string]struct {
		nodes []Node
		want  string // "false": nothing can be planned yet
	}{
		"no other Node": {[]Node{one}, "[]"},
		"a Node of the same network, by a route": {
			[]Node{node("two", "192.0.2.12", "10.244.1.0/24"), one}, "[{10.244.1.0/24 192.0.2.12 false}]",
		},
		"a Node behind a router, by the tunnel": {
			[]Node{one, node("far", "198.51.100.7", "10.244.2.0/24")}, "[{10.244.2.0/24 198.51.100.7 true}]",
		},
		"another Node without a range yet":          {[]Node{one, node("two", "192.0.2.12", "")}, "[]"},
		"another Node without an address":           {[]Node{one, node("two", "", "10.244.1.0/24")}, "[]"},
		"another Node with an IPv6 address":         {[]Node{one, node("two", "fd00::1", "10.244.1.0/24")}, "[]"},
		"another Node that takes this Node's range": {[]Node{one, node("evil", "192.0.2.66", "10.244.0.0/16")}, "[]"},
		"another Node that has this Node's address": {[]Node{one, node("evil", "192.0.2.11", "10.244.9.0/24")}, "[]"},
		"this Node has no range yet":                {[]Node{node("one", "192.0.2.11", "")}, "false"},
		"this Node does not exist yet":              {nil, "false"},
		"two Nodes with the same range": {
			[]Node{one, node("b", "192.0.2.13", "10.244.1.0/24"), node("a", "192.0.2.12", "10.244.1.0/24")},
			"[{10.244.1.0/24 192.0.2.12 false}]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := "false"
			if d, ok := Plan("one", segments, c.nodes); ok {
				got = fmt.Sprint(d.Routes)
				if d.Tunneled() != strings.Contains(got, "true") {
					t.Error("Tunneled does not agree with the routes")
				}
			}
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestConfig(t *testing.T) {
	d := Desired{Self: node("one", "192.0.2.11", "10.244.3.0/24")}
	text, err := d.Config(1500)
	for _, want := range []string{`"subnet": "10.244.3.0/24"`, `"mtu": 1450`, `"type": "portmap"`, `"ipMasq": false`} {
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s is missing in %s, %v", want, text, err)
		}
	}
}
