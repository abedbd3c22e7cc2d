package routes

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// nodes parses Nodes from texts like "a 10.0.0.1 10.244.1.0/24 fd00::/64", oldest first.
func nodes(texts ...string) []Node {
	var all []Node
	for i, text := range texts {
		words := strings.Fields(text)
		n := Node{Name: words[0], Created: time.Unix(int64(i), 0)}
		for _, word := range words[1:] {
			if r, err := netip.ParsePrefix(word); err == nil {
				n.Ranges = append(n.Ranges, r)
				continue
			}
			n.Address = netip.MustParseAddr(word)
		}
		all = append(all, n)
	}
	return all
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
	}
}

func text(changes []Change) string {
	var b strings.Builder
	for _, c := range changes {
		b.WriteString(c.String() + "\n")
	}
	return b.String()
}

func TestPlan(t *testing.T) {
	self := "self 10.231.1.1 10.244.1.0/24 fd00:1::/64"
	cluster := []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00::/16")}
	for name, c := range map[string]struct {
		nodes   []Node
		pods    []netip.Prefix
		peers   string
		refused string
	}{
		"the others are peers, by name": {
			nodes: nodes(self, "z 10.231.1.3 10.244.3.0/24", "b 10.231.1.2 10.244.2.0/24 fd00:2::/64"),
			peers: "b 10.231.1.2 [10.244.2.0/24 fd00:2::/64], z 10.231.1.3 [10.244.3.0/24]",
		},
		"a Node without a range is reached by pods": {
			nodes: nodes(self, "b 10.231.1.2"), peers: "b 10.231.1.2 []",
		},
		"a Node without an address waits": {nodes: nodes(self, "b 10.244.2.0/24")},
		"a range that an older Node has is refused": {
			nodes:   nodes(self, "old 10.231.1.3 10.244.2.0/24", "a 10.231.1.2 10.244.2.128/25"),
			peers:   "a 10.231.1.2 [], old 10.231.1.3 [10.244.2.0/24]",
			refused: "Node a: its range 10.244.2.128/25 has addresses of 10.244.2.0/24, the range of Node old",
		},
		"this Node's own range is refused even to older Nodes": {
			nodes:   nodes("old 10.231.1.3 10.244.0.0/16", self),
			peers:   "old 10.231.1.3 []",
			refused: "Node old: its range 10.244.0.0/16 has addresses of 10.244.1.0/24, the range of Node self",
		},
		"a range of all addresses is refused": {
			nodes:   nodes(self, "b 10.231.1.2 0.0.0.0/0 ::/0"),
			peers:   "b 10.231.1.2 []",
			refused: "Node b: 0.0.0.0/0 can't be a range of pods; Node b: ::/0 can't be a range of pods",
		},
		"loopback and link-local ranges are refused": {
			nodes:   nodes(self, "b 10.231.1.2 127.0.0.0/24 169.254.0.0/24"),
			peers:   "b 10.231.1.2 []",
			refused: "Node b: 127.0.0.0/24 can't be a range of pods; Node b: 169.254.0.0/24 can't be a range of pods",
		},
		"a range with a Node's address is refused": {
			nodes:   nodes(self, "b 10.231.1.2 10.231.1.0/24", "c 10.231.1.3"),
			peers:   "b 10.231.1.2 [], c 10.231.1.3 []",
			refused: "Node b: its range 10.231.1.0/24 has the address of Node self",
		},
		"a range outside the cluster's pod ranges is refused": {
			nodes: nodes(self, "b 10.231.1.2 10.245.2.0/24 10.244.2.0/24 10.0.0.0/8"), pods: cluster,
			peers: "b 10.231.1.2 [10.244.2.0/24]",
			refused: "Node b: its range 10.0.0.0/8 is outside the cluster's pod ranges; " +
				"Node b: its range 10.245.2.0/24 is outside the cluster's pod ranges",
		},
		"an address that another Node has is refused": {
			nodes:   nodes(self, "old 10.231.1.2 10.244.2.0/24", "a 10.231.1.2 10.244.3.0/24", "b 10.231.1.1"),
			peers:   "old 10.231.1.2 [10.244.2.0/24]",
			refused: "Node a: its address 10.231.1.2 is that of Node old; Node b: its address 10.231.1.1 is that of Node self",
		},
		"a Node's address in a pod range is refused": {
			nodes:   nodes(self, "b 10.244.1.7"),
			refused: "Node b: its address 10.244.1.7 belongs to the pods of Node self",
		},
		"a Node's loopback address is refused": {
			nodes: nodes(self, "b 127.0.0.1"), refused: "Node b: 127.0.0.1 can't be the address of a Node",
		},
	} {
		want, refused, ok := Plan("self", c.pods, c.nodes)
		if !ok {
			t.Errorf("%s: there is no plan", name)
		}
		var peers, reasons []string
		for _, p := range want.Peers {
			peers = append(peers, fmt.Sprintf("%s %s %v", p.Name, p.Address, p.Ranges))
		}
		for _, r := range refused {
			reasons = append(reasons, r.String())
		}
		if got := strings.Join(peers, ", "); got != c.peers {
			t.Errorf("%s: peers are %q, want %q", name, got, c.peers)
		}
		if got := strings.Join(reasons, "; "); got != c.refused {
			t.Errorf("%s: the refusals are %q, want %q", name, got, c.refused)
		}
	}
	for name, all := range map[string][]Node{
		"without this Node": nodes("b 10.231.1.2"), "without its address": nodes("self 10.244.1.0/24"),
	} {
		if _, _, ok := Plan("self", nil, all); ok {
			t.Errorf("%s there is a plan", name)
		}
	}
	many := nodes(self)
	for i := range MaxNodes + 1 {
		many = append(many, Node{Name: fmt.Sprint(i), Address: netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})})
	}
	if want, refused, _ := Plan("self", nil, many); len(want.Peers) != MaxNodes || len(refused) != 1 {
		t.Errorf("of %d Nodes, %d are peers and %d refused", len(many), len(want.Peers), len(refused))
	}
}

func TestStatesAndChanges(t *testing.T) {
	self := "self 10.231.1.1 10.244.1.0/24 fd00:1::/64"
	before := nodes(self, "b 10.231.1.2 10.244.2.0/24 fd00:2::/64", "c 10.231.1.3")
	after := nodes(self, "c 10.231.1.3 10.244.3.0/24", "b 10.231.1.4 10.244.2.0/24")
	moved := nodes("self 10.231.1.9 10.244.1.0/24", "c 10.231.1.3 10.244.3.0/24")
	var b strings.Builder
	var have State
	for _, step := range []struct {
		title string
		nodes []Node
		mtu   int
	}{
		{"from nothing", before, 1500}, {"again", before, 1500}, {"other Nodes", after, 1500},
		{"another MTU", after, 9000}, {"another address", moved, 9000},
	} {
		want, _, _ := Plan("self", nil, step.nodes)
		fmt.Fprintf(&b, "# %s\n%s", step.title, text(Diff(have, want.State(step.mtu))))
		have = want.State(step.mtu)
	}
	fmt.Fprintf(&b, "# to nothing\n%s", text(Diff(have, State{})))
	golden(t, "changes.txt", b.String())
	want, _, _ := Plan("self", nil, before)
	golden(t, "rules.txt", want.rules().Text())
}
