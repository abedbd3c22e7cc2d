package inventory

import (
	"cmp"
	"slices"
)

// Demand is what one namespace has of the budget, and what it asks for. All numbers count hosts.
type Demand struct {
	// Namespace that the demand is about.
	Namespace string
	// Asks is true for a namespace that may have hosts which nobody claims.
	Asks bool
	// Has are the hosts that are registered there, but those on their way out.
	Has int
	// Claimed are those of them that can't be taken away.
	Claimed int
	// Promised is what the clusters there want that were let through: the hosts that the namespace has are kept for them.
	Promised int
	// Wants is what all clusters there want.
	Wants int
	// Step is the least number of hosts beyond those promised that is of any use: a cluster that was not let through yet
	// begins with all of its hosts or not at all. 0 and 1: each host is of use.
	Step int
	// Surge is what the clusters there have besides during a rollout.
	Surge int
	// Zones counts, by zone, the machines without a host that can be in no other zone.
	Zones map[string]int
}

// kept is what the namespace keeps in any case.
func (d Demand) kept() int {
	if !d.Asks {
		return d.Claimed
	}
	return max(d.Claimed, min(d.Promised, d.Has))
}

// Shares returns how many hosts of a budget each namespace shall have. Nothing that is claimed or promised is taken
// away. Then each namespace gets what its clusters want, the one with the fewest hosts first, one by one: the shares
// are max-min fair. Then each gets room for rollouts in the same way, and what is left is spread evenly. Equal
// namespaces are served in the order of their names, Home first, so the same demands have the same shares, also after
// they were carried out.
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

// shares is what was given so far, and what is left.
type shares struct {
	demands []Demand
	has     []int
	left    int
}

// serveClusters gives what clusters want.
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
			skipped[next] = true // fewer are of no use there
		}
	}
}

// serve gives each namespace that asks up to so many hosts more, the one first that got the fewest.
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
