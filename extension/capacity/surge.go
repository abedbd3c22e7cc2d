package capacity

import (
	"cmp"
	"slices"
)

// Surge returns the needs for the additional machines that may exist at the same time during a rollout. Each of the
// given groups of machines has a surge, and atOnce groups are rolled out at a time. The result consists of sets of
// needs, each of which must fit by itself. The order of the groups is unknown, so Surge assumes that the largest groups
// are rolled out together.
func Surge(groups []Need, atOnce int) [][]Need {
	groups = slices.DeleteFunc(slices.Clone(groups), func(n Need) bool { return n.Hosts <= 0 })
	slices.SortStableFunc(groups, func(a, b Need) int { return cmp.Compare(b.Hosts, a.Hosts) })
	if len(groups) == 0 {
		return nil
	}
	atOnce = min(max(atOnce, 1), len(groups))
	sets := [][]Need{slices.Clone(groups[:atOnce])}
	inZone := map[string][]Need{}
	var zones []string
	for _, n := range groups {
		if n.Zone != "" && len(inZone[n.Zone]) < atOnce {
			if len(inZone[n.Zone]) == 0 {
				zones = append(zones, n.Zone)
			}
			inZone[n.Zone] = append(inZone[n.Zone], n)
		}
	}
	slices.Sort(zones)
	for _, zone := range zones {
		sets = append(sets, inZone[zone])
	}
	return sets
}
