package inventory

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// show returns shares in the order of their namespaces.
func show(shares map[string]int) string {
	var parts []string
	for _, namespace := range slices.SortedFunc(maps.Keys(shares), before) {
		parts = append(parts, fmt.Sprintf("%s %d", namespace, shares[namespace]))
	}
	return strings.Join(parts, ", ")
}

func TestShares(t *testing.T) {
	home := Demand{Namespace: Home, Asks: true}
	for name, c := range map[string]struct {
		budget  int
		demands []Demand
		want    string
	}{
		"nobody else asks":              {8, []Demand{home}, "default 8"},
		"the rest is spread evenly":     {8, []Demand{home, {Namespace: "a", Asks: true}}, "default 4, a 4"},
		"an odd rest: home comes first": {3, []Demand{{Namespace: "a", Asks: true}, home}, "default 2, a 1"},
		"what clusters want comes first, the rest evenly": {
			8, []Demand{home, {Namespace: "a", Asks: true, Wants: 4}}, "default 2, a 6"},
		"the smallest demand is met in full, the others share the rest": {
			9, []Demand{home, {Namespace: "a", Asks: true, Wants: 1}, {Namespace: "b", Asks: true, Wants: 9},
				{Namespace: "c", Asks: true, Wants: 9}}, "default 0, a 1, b 4, c 4"},
		"claimed hosts are not taken away": {
			4, []Demand{{Namespace: Home, Asks: true, Has: 4, Claimed: 3, Promised: 3, Wants: 3},
				{Namespace: "a", Asks: true, Wants: 3}}, "default 3, a 1"},
		"hosts that are promised to an admitted cluster are kept": {
			4, []Demand{{Namespace: Home, Asks: true, Has: 4, Claimed: 1, Promised: 3, Wants: 3},
				{Namespace: "a", Asks: true, Wants: 3}}, "default 3, a 1"},
		"a host that helps no cluster is spread evenly": {
			4, []Demand{{Namespace: Home, Asks: true, Has: 4, Claimed: 1, Promised: 3, Wants: 3},
				{Namespace: "a", Asks: true, Wants: 3, Step: 3}}, "default 4, a 0"},
		"only hosts that exist are kept for a promise": {
			8, []Demand{{Namespace: Home, Asks: true, Has: 2, Claimed: 2, Promised: 9, Wants: 9},
				{Namespace: "a", Asks: true, Wants: 4}}, "default 4, a 4"},
		"half of a cluster is of no use, so only one of two can begin": {
			4, []Demand{{Namespace: Home, Asks: true, Wants: 3, Step: 3}, {Namespace: "a", Asks: true, Wants: 3, Step: 3}},
			"default 4, a 0"},
		"a smaller cluster begins before a larger one": {
			4, []Demand{{Namespace: Home, Asks: true, Wants: 3, Step: 3}, {Namespace: "a", Asks: true, Wants: 2, Step: 2}},
			"default 1, a 3"},
		"room for a rollout comes before the rest, and after what clusters want": {
			5, []Demand{{Namespace: Home, Asks: true, Has: 1, Claimed: 1, Promised: 1, Wants: 1, Surge: 2},
				{Namespace: "a", Asks: true, Wants: 2}}, "default 3, a 2"},
		"a namespace that does not ask gives back its unclaimed hosts": {
			4, []Demand{home, {Namespace: "a", Has: 3, Claimed: 1, Promised: 3, Wants: 3}}, "default 3, a 1"},
		"more hosts are claimed than the budget has": {
			2, []Demand{home, {Namespace: "a", Asks: true, Has: 3, Claimed: 3, Wants: 3}}, "default 0, a 3"},
		"a budget of 0": {0, []Demand{home}, "default 0"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := show(Shares(c.budget, c.demands)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// anyDemands returns random demands of up to six namespaces that fit a budget. Without steps, each host helps.
func anyDemands(random *rand.Rand, budget int, steps bool) []Demand {
	demands := []Demand{{Namespace: Home, Asks: true}}
	for i := range random.IntN(6) {
		demands = append(demands, Demand{Namespace: string(rune('a' + i)), Asks: random.IntN(4) > 0})
	}
	left := budget
	for i := range demands {
		d := &demands[i]
		d.Has = random.IntN(left + 1)
		left -= d.Has
		d.Claimed = random.IntN(d.Has + 1)
		d.Promised = random.IntN(budget + 1)
		d.Wants = d.Promised + random.IntN(4)
		d.Surge = random.IntN(3)
		if steps && d.Promised <= d.Has {
			d.Step = random.IntN(4)
		}
	}
	return demands
}

func FuzzShares(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed, uint8(seed%23), seed%2 == 0)
	}
	f.Fuzz(func(t *testing.T, seed uint64, size uint8, steps bool) {
		random, budget := rand.New(rand.NewPCG(seed, 1)), int(size%64)
		demands := anyDemands(random, budget, steps)
		shares := Shares(budget, demands)
		lawsOfShares(t, budget, demands, shares)
		if !steps {
			fair(t, demands, shares)
			monotone(t, random, budget, demands, shares)
		}
		// Once they are carried out, the shares stay the same.
		after := slices.Clone(demands)
		for i := range after {
			after[i].Has = max(shares[after[i].Namespace], after[i].Claimed)
		}
		if again := Shares(budget, after); !maps.Equal(again, shares) {
			t.Errorf("%+v\nbecome %s\nand then %s", demands, show(shares), show(again))
		}
		random.Shuffle(len(demands), func(i, j int) { demands[i], demands[j] = demands[j], demands[i] })
		if again := Shares(budget, demands); !maps.Equal(again, shares) {
			t.Errorf("%+v: in another order %s, not %s", demands, show(again), show(shares))
		}
	})
}

// lawsOfShares checks what always holds: the whole budget is distributed, nothing claimed or promised is taken away,
// and namespaces that don't ask get nothing else.
func lawsOfShares(t *testing.T, budget int, demands []Demand, shares map[string]int) {
	t.Helper()
	sum := 0
	for _, d := range demands {
		share := shares[d.Namespace]
		sum += share
		if share < d.kept() || share < d.Claimed || !d.Asks && share != d.Claimed {
			t.Errorf("%+v has the share %d", d, share)
		}
	}
	if sum != budget {
		t.Errorf("%d of %d hosts are shared out: %s", sum, budget, show(shares))
	}
}

// fair checks that no namespace has more hosts than a namespace that lacks hosts, except for hosts that were kept for
// it and for a remainder that can't be divided.
func fair(t *testing.T, demands []Demand, shares map[string]int) {
	t.Helper()
	for _, poor := range demands {
		has := shares[poor.Namespace]
		if !poor.Asks || has >= poor.Wants {
			continue
		}
		for _, rich := range demands {
			if shares[rich.Namespace] > max(rich.kept(), has+1) {
				t.Errorf("%+v has %d while %+v has %d", poor, has, rich, shares[rich.Namespace])
			}
		}
	}
}

// monotone checks that a larger budget takes nothing from any namespace, and that asking for more neither reduces a
// namespace's own share nor increases another's.
func monotone(t *testing.T, random *rand.Rand, budget int, demands []Demand, shares map[string]int) {
	t.Helper()
	for namespace, share := range Shares(budget+1, demands) {
		if share < shares[namespace] {
			t.Errorf("%+v: with one host more, %s has %d instead of %d", demands, namespace, share, shares[namespace])
		}
	}
	i := random.IntN(len(demands))
	more := slices.Clone(demands)
	more[i].Wants++
	for namespace, share := range Shares(budget, more) {
		is := namespace == demands[i].Namespace
		if is && share < shares[namespace] || !is && share > shares[namespace] {
			t.Errorf("%+v: when number %d wants one more, %s has %d instead of %d", demands, i, namespace, share,
				shares[namespace])
		}
	}
}
