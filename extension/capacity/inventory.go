package capacity

import (
	"maps"
	"slices"
	"strings"
)

// inventory holds the free hosts, grouped by what they offer.
type inventory []group

type group struct {
	host  Host // represents all hosts of the group
	hosts int
}

func newInventory(hosts []Host) inventory {
	groups := map[string]*group{}
	for _, h := range hosts {
		if h.State != Free {
			continue
		}
		key := h.Zone + "\n" + strings.Join(slices.Sorted(slices.Values(h.Versions)), "\n") + "\n\n" +
			strings.Join(h.Meets, "\n")
		if groups[key] == nil {
			groups[key] = &group{host: h}
		}
		groups[key].hosts++
	}
	var inv inventory
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		inv = append(inv, *groups[key])
	}
	return inv
}

// holds reports whether all needs can be met without promised hosts. A promise that cannot be kept completely takes as
// many hosts as it can.
func (inv inventory) holds(promised, needs []Need) bool {
	m := inv.keep(promised)
	for _, need := range needs {
		if m.place(need, need.Hosts) < need.Hosts {
			return false
		}
	}
	return true
}

// available returns how many hosts of these kinds are available, without the promised ones.
func (inv inventory) available(promised, kinds []Need) int {
	m := inv.keep(promised)
	free := 0
	for _, g := range inv {
		free += g.hosts
	}
	placed := 0
	for _, kind := range kinds {
		placed += m.place(kind, free-placed)
	}
	return placed
}

func (inv inventory) keep(promised []Need) *matching {
	m := &matching{inventory: inv}
	for _, g := range inv {
		m.left = append(m.left, g.hosts)
	}
	for _, need := range promised {
		m.place(need, need.Hosts)
	}
	return m
}

// matching assigns hosts to needs: a maximum bipartite matching over groups. A need that was placed stays placed, but
// may move to other suitable hosts to make room.
type matching struct {
	inventory inventory
	left      []int   // free hosts in each group
	needs     []Need  // placed so far
	used      [][]int // for each need, the hosts used in each group
}

// place places up to wanted hosts for a need and returns how many it placed.
func (m *matching) place(need Need, wanted int) int {
	m.needs = append(m.needs, need)
	m.used = append(m.used, make([]int, len(m.inventory)))
	got := 0
	for got < wanted && m.one(len(m.needs)-1, make([]bool, len(m.inventory))) {
		got++
	}
	return got
}

// one places one more host for a need, trying each group once.
func (m *matching) one(need int, tried []bool) bool {
	for g := range m.inventory {
		if tried[g] || !m.serves(g, need) {
			continue
		}
		tried[g] = true
		if m.left[g] > 0 {
			m.left[g]--
			m.used[need][g]++
			return true
		}
		for other := range m.needs {
			if m.used[other][g] > 0 && m.one(other, tried) {
				m.used[other][g]--
				m.used[need][g]++
				return true
			}
		}
	}
	return false
}

func (m *matching) serves(g, need int) bool {
	host, wanted := m.inventory[g].host, m.needs[need]
	return (wanted.Zone == "" || wanted.Zone == host.Zone) && host.offers(wanted.Version) &&
		host.meets(wanted.Limits)
}
