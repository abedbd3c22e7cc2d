package inventory

import (
	"cmp"
	"slices"
)

// Demand is what one namespace has of the budget and what it asks for. All numbers except Zones count hosts.
type Demand struct {
	// Namespace is the namespace with this demand.
	Namespace string
	// Asks is true for a namespace that may be given unclaimed hosts.
	Asks bool
	// Has is how many hosts are registered there, not counting those being deleted.
	Has int
	// Claimed is how many of these can't be taken away.
	Claimed int
	// Promised is what the admitted clusters there want. The namespace keeps the hosts that it has for them.
	Promised int
	// Wants is what all clusters there want.
	Wants int
	// Step is the least number of hosts beyond Promised that helps: a cluster that is not admitted yet starts with all of
	// its hosts or not at all. 0 and 1 mean that each host helps.
	Step int
	// Surge is how many additional hosts the clusters there need during a rollout.
	Surge int
	// Zones counts, by zone, the machines without a host that are bound to the zone.
	Zones map[string]int
}

// kept returns how many hosts the namespace keeps in any case.
func (d Demand) kept() int {
	if !d.Asks {
		return d.Claimed
	}
	return max(d.Claimed, min(d.Promised, d.Has))
}

// Shares returns how many hosts of a budget each namespace should have. Each namespace keeps the hosts that are claimed
// or promised. Then namespaces get what their clusters want, the namespace with the fewest hosts first, so the shares
// are max-min fair. Each turn is one host, except that a namespace's first turn is Demand.Step hosts. After that, they
// get hosts for rollouts in the same way, and the rest is spread evenly. Ties are broken by name, Home first, so the
// same demands lead to the same shares, even after these were carried out.
func Shares(budget int, demands []Demand) map[string]int {
	s := shares{demands: slices.Clone(demands), left: budget}
	slices.SortFunc(s.demands, func(a, b Demand) int { return before(a.Namespace, b.Namespace) })
	for _, d := range s.demands {
		s.has = append(s.has, d.kept())
		s.left -= d.kept()
	}
	s.serveClusters()
	s.serve(func(i int) int { return s.demands[i].Surge })
	s.serve(func(int) int { return budget })
	all := make(map[string]int, len(s.demands))
	for i, d := range s.demands {
		all[d.Namespace] = s.has[i]
	}
	return all
}

// before orders namespaces: Home, then by name.
func before(a, b string) int {
	switch {
	case a == b:
		return 0
	case a == Home:
		return -1
	case b == Home:
		return 1
	}
	return cmp.Compare(a, b)
}

// shares holds what each namespace has been given so far, and what is left.
type shares struct {
	demands []Demand
	has     []int
	left    int
}

// serveClusters gives each namespace what its clusters want.
func (s *shares) serveClusters() {
	begun, skipped := make([]bool, len(s.demands)), make([]bool, len(s.demands))
	step := func(i int) int {
		if begun[i] {
			return 1
		}
		return min(max(s.demands[i].Step, 1), s.demands[i].Wants-s.has[i])
	}
	for s.left > 0 {
		next := -1
		for i, d := range s.demands {
			if !d.Asks || skipped[i] || s.has[i] >= d.Wants {
				continue
			}
			if next < 0 || cmp.Or(cmp.Compare(s.has[i], s.has[next]), cmp.Compare(step(i), step(next))) < 0 {
				next = i
			}
		}
		if next < 0 {
			return
		}
		if n := step(next); n <= s.left {
			s.give(next, n)
			begun[next] = true
		} else {
			skipped[next] = true // fewer hosts don't help there
		}
	}
}

// serve hands out hosts one at a time to the namespaces that ask. The namespace that has received the fewest in this
// call is next. The function most returns how many hosts the namespace with this index may get at most.
func (s *shares) serve(most func(i int) int) {
	got := make([]int, len(s.demands))
	for s.left > 0 {
		next := -1
		for i, d := range s.demands {
			if d.Asks && got[i] < most(i) && (next < 0 || got[i] < got[next]) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		got[next]++
		s.give(next, 1)
	}
}

func (s *shares) give(i, n int) {
	s.has[i] += n
	s.left -= n
}
