package inventory

import (
	"strings"
	"testing"
)

func TestShortage(t *testing.T) {
	wants := func(n int) Demand { return Demand{Namespace: "a", Asks: true, Promised: n, Wants: n} }
	for name, c := range map[string]struct {
		budget int
		hosts  string
		demand Demand
		want   string
	}{
		"hosts are on their way": {3, "default/host-01 x, default/host-02 y, default/host-03 x claimed", wants(1),
			"the namespace's share is 1 of the 3 local hosts: it gets them as soon as other namespaces release them"},
		"other namespaces use all hosts": {2, "default/host-01 x claimed, default/host-02 y claimed", wants(1),
			"all 2 local hosts are in use or reserved for clusters (default 2): delete a cluster, " +
				"or add hosts with capstan up --hosts 3"},
		"the namespace and others use all hosts": {2, "default/host-01 x claimed, a/host-02 y claimed", wants(3),
			"all 2 local hosts are in use or reserved for clusters (default 1, a 1): delete a cluster, " +
				"or add hosts with capstan up --hosts 4"},
		"a free host does not fit":      {2, "default/host-01 x, a/host-02 y", wants(1), ""},
		"a namespace that does not ask": {2, "default/host-01 x", Demand{Namespace: "a", Wants: 1}, ""},
		"no local hosts":                {0, "", wants(1), "there are no local hosts: run capstan up --hosts 3"},
	} {
		t.Run(name, func(t *testing.T) {
			p := Picture{Budget: c.budget, Zones: []string{"x", "y"}, Owners: map[int]string{}, Now: now,
				Demands: []Demand{{Namespace: Home, Asks: true}, c.demand}}
			for text := range strings.SplitSeq(c.hosts, ", ") {
				if text == "" {
					continue
				}
				h := at(t, text)
				n, _ := numberOf(&h)
				p.Hosts, p.Owners[n] = append(p.Hosts, h), h.Namespace
			}
			if got := shortage(p, "a"); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
