package capacity

import (
	"maps"
	"slices"
	"strings"
)

// inventory is the free hosts, grouped by what they offer.
type inventory []group

type group struct {
	host  Host // what all of the group are like
	hosts int
}

func newInventory(hosts []Host) inventory {
	groups := map[string]*group{}
	for _, h := range hosts {
		if h.State != Free {
			continue
		}
		key := h.Zone + "\n" + strings.Join(slices.Sorted(slices.Values(h.Versions)), "\n")
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

// holds tells whether all needs can have hosts, without taking any from what is promised. A promise that can't be kept
// in any case takes as much as it can have.
func (inv inventory) holds(promised, needs []Need) bool {
	m := inv.keep(promised)
	for _, need := range needs {
		if m.place(need, need.Hosts) < need.Hosts {
			return false
		}
	}
	return true
}

// available tells how many hosts of a sort can be had beside what is promised.
func (inv inventory) available(promised []Need, zone, version string) int {
	m := inv.keep(promised)
	free := 0
	for _, g := range inv {
		free += g.hosts
	}
	return m.place(Need{Zone: zone, Version: version}, free)
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

// matching assigns hosts to needs: a maximum bipartite matching over groups. What was placed stays placed; it may move
// to other hosts that serve as well, to make room.
type matching struct {
	inventory inventory
	left      []int   // free hosts of each group
	needs     []Need  // placed so far
	used      [][]int // for each need, hosts of each group
}

// place gives a need up to this many hosts, and tells how many it got.
func (m *matching) place(need Need, wanted int) int {
	m.needs = append(m.needs, need)
	m.used = append(m.used, make([]int, len(m.inventory)))
	got := 0
	for got < wanted && m.one(len(m.needs)-1, make([]bool, len(m.inventory))) {
		got++
	}
	return got
}

// one finds one more host for a need, trying each group once.
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
	return (wanted.Zone == "" || wanted.Zone == host.Zone) && host.offers(wanted.Version)
}
