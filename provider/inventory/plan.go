package inventory

import (
	"cmp"
	"maps"
	"slices"
	"time"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// stuckAfter is how long the deletion of a host may take. A host that takes longer, because something blocks its
// deletion, counts as claimed by its namespace until it is gone.
const stuckAfter = time.Minute

// Picture holds everything that a decision depends on.
type Picture struct {
	// Budget is the number of hosts. Zones are the failure domains to spread them over; at least one.
	Budget int
	Zones  []string
	// Hosts are the CapstanHosts of all namespaces.
	Hosts []infrav1.CapstanHost
	// Owners maps numbers to the namespaces that have them.
	Owners map[int]string
	// Demands holds what namespaces ask for. Decide ignores Has and Claimed, and computes them from Hosts.
	Demands []Demand
	// Now is the present time, which is compared with deletion times.
	Now time.Time
}

// Assignment is a host to register.
type Assignment struct {
	Number          int
	Namespace, Zone string
}

// Decision is the next step towards the shares.
type Decision struct {
	// Shares is how many hosts each namespace should have.
	Shares map[string]int
	// Remove holds unclaimed hosts to delete, as they were read.
	Remove []*infrav1.CapstanHost
	// Assign holds hosts to register. No namespace has a host with one of these numbers.
	Assign []Assignment
	// Forget holds numbers beyond the budget whose hosts are gone.
	Forget []int
	// Going counts the hosts that are being deleted, whose numbers are free soon.
	Going int
}

// IsSettled reports whether there is nothing to do and nothing to wait for.
func (d Decision) IsSettled() bool { return len(d.Remove)+len(d.Assign)+len(d.Forget)+d.Going == 0 }

// decider computes one decision.
type decider struct {
	Picture
	// of holds the hosts that each namespace keeps so far. taken holds the numbers that have a host in their namespace.
	of    map[string][]*infrav1.CapstanHost
	taken map[int]bool
	// strange holds the hosts in a namespace that does not own their number.
	strange map[place]bool
	stuck   map[string]int
	// bound counts, by namespace and zone, the machines without a host that are bound to the zone.
	bound map[string]map[string]int
	extra int // claimed hosts beyond the budget
	d     Decision
}

type place struct{ namespace, name string }

// newDecider sorts the hosts and computes the share of each namespace.
func newDecider(p Picture) *decider {
	d := &decider{
		Picture: p, of: map[string][]*infrav1.CapstanHost{}, taken: map[int]bool{}, stuck: map[string]int{},
		strange: map[place]bool{}, bound: map[string]map[string]int{},
	}
	for _, demand := range p.Demands {
		d.bound[demand.Namespace] = demand.Zones
	}
	d.sort()
	d.share()
	return d
}

// Decide returns what to do next. It never removes a claimed host, and never registers a number that is registered
// elsewhere. It takes hosts from a namespace only if they exceed the namespace's share. It is pure: the same picture
// leads to the same decision.
func Decide(p Picture) Decision {
	d := newDecider(p)
	for _, namespace := range d.namespaces() {
		d.take(namespace)
	}
	d.assign()
	for number := range p.Owners {
		if number > p.Budget && !d.taken[number] {
			d.d.Forget = append(d.d.Forget, number)
		}
	}
	slices.Sort(d.d.Forget)
	if d.d.IsSettled() {
		d.balanceZones()
	}
	return d.d
}

// sort decides for each host whether it stays, goes or is in the wrong namespace.
func (d *decider) sort() {
	for i := range d.Hosts {
		host := &d.Hosts[i]
		number, ours := numberOf(host)
		if !ours {
			continue
		}
		going, claimed := !host.DeletionTimestamp.IsZero(), host.Spec.Claim != nil
		if owner, known := d.Owners[number]; !known || owner != host.Namespace {
			// Somebody else created this host. No supplier makes it, and its namespace can't get this number while the host
			// exists.
			d.strange[place{host.Namespace, host.Name}] = true
			if !going && !claimed {
				d.d.Remove = append(d.d.Remove, host)
			}
			continue
		}
		d.taken[number] = true
		switch {
		case claimed:
			d.of[host.Namespace] = append(d.of[host.Namespace], host)
			if number > d.Budget {
				d.extra++
			}
		case going:
			if d.Now.Sub(host.DeletionTimestamp.Time) > stuckAfter {
				d.stuck[host.Namespace]++
			} else {
				d.d.Going++
			}
		case number > d.Budget:
			d.d.Remove = append(d.d.Remove, host)
		default:
			d.of[host.Namespace] = append(d.of[host.Namespace], host)
		}
	}
}

// share computes the shares. A namespace with hosts but without a demand asks for nothing.
func (d *decider) share() {
	demands := map[string]Demand{}
	for _, demand := range d.Demands {
		demands[demand.Namespace] = demand
	}
	for namespace := range d.of {
		demands[namespace] = withName(demands[namespace], namespace)
	}
	for namespace := range d.stuck {
		demands[namespace] = withName(demands[namespace], namespace)
	}
	all := make([]Demand, 0, len(demands))
	for namespace, demand := range demands {
		demand.Has = len(d.of[namespace]) + d.stuck[namespace]
		demand.Claimed = d.stuck[namespace]
		for _, host := range d.of[namespace] {
			if host.Spec.Claim != nil {
				demand.Claimed++
			}
		}
		all = append(all, demand)
	}
	d.d.Shares = Shares(d.Budget+d.extra, all)
}

func withName(d Demand, namespace string) Demand {
	d.Namespace = namespace
	return d
}

// namespaces returns all namespaces with a share, those with the fewest hosts first.
func (d *decider) namespaces() []string {
	return slices.SortedFunc(maps.Keys(d.d.Shares), func(a, b string) int {
		return cmp.Or(cmp.Compare(d.count(a), d.count(b)), before(a, b))
	})
}

func (d *decider) count(namespace string) int { return len(d.of[namespace]) + d.stuck[namespace] }

// take removes the hosts that a namespace has beyond its share.
func (d *decider) take(namespace string) {
	for range d.count(namespace) - d.d.Shares[namespace] {
		host := d.spare(namespace)
		if host == nil {
			return
		}
		d.remove(host)
	}
}

func (d *decider) remove(host *infrav1.CapstanHost) {
	d.d.Remove = append(d.d.Remove, host)
	d.of[host.Namespace] = slices.DeleteFunc(slices.Clone(d.of[host.Namespace]),
		func(h *infrav1.CapstanHost) bool { return h == host })
}

// spare returns the unclaimed host that a namespace needs least, or nil if all are claimed. It prefers, in this order,
// hosts that nobody has marked, hosts that no machine waits for, the zone with the most hosts, and the highest number.
func (d *decider) spare(namespace string) *infrav1.CapstanHost {
	var free []*infrav1.CapstanHost
	for _, host := range d.of[namespace] {
		if host.Spec.Claim == nil {
			free = append(free, host)
		}
	}
	if len(free) == 0 {
		return nil
	}
	zones, lacks := d.zones(namespace), d.lacks(namespace)
	needed := func(host *infrav1.CapstanHost) bool { return lacks[host.Spec.Zone] >= 0 }
	return slices.MinFunc(free, func(a, b *infrav1.CapstanHost) int {
		return cmp.Or(
			compareBool(isMarked(a), isMarked(b)),
			compareBool(needed(a), needed(b)),
			cmp.Compare(zones[b.Spec.Zone], zones[a.Spec.Zone]),
			cmp.Compare(numberOrZero(b), numberOrZero(a)),
		)
	})
}

// isMarked reports whether somebody has labelled or closed the host. Such a mark would be lost with the host.
func isMarked(host *infrav1.CapstanHost) bool { return host.Spec.Closed() || len(host.Labels) > 0 }

func numberOrZero(host *infrav1.CapstanHost) int {
	number, _ := numberOf(host)
	return number
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// zones counts the hosts of a namespace by zone.
func (d *decider) zones(namespace string) map[string]int {
	count := map[string]int{}
	for _, host := range d.of[namespace] {
		count[host.Spec.Zone]++
	}
	return count
}

// lacks returns, for each zone, how many more machines of a namespace wait for a host there than it has free hosts. A
// negative number means spare hosts.
func (d *decider) lacks(namespace string) map[string]int {
	lacks := maps.Clone(d.bound[namespace])
	if lacks == nil {
		lacks = map[string]int{}
	}
	for _, host := range d.of[namespace] {
		if host.Spec.Claim == nil {
			lacks[host.Spec.Zone]--
		}
	}
	return lacks
}

// nextZone returns the zone for another host: the one where the most machines wait or, if none wait, the one with the
// fewest hosts.
func (d *decider) nextZone(zones, lacks map[string]int) string {
	return slices.MinFunc(d.Zones, func(a, b string) int {
		return cmp.Or(cmp.Compare(max(lacks[b], 0), max(lacks[a], 0)), cmp.Compare(zones[a], zones[b]))
	})
}

// assign distributes free numbers to namespaces with fewer hosts than their share, those with the fewest hosts first.
func (d *decider) assign() {
	var loose []int
	for number := 1; number <= d.Budget; number++ {
		if !d.taken[number] {
			loose = append(loose, number)
		}
	}
	for _, namespace := range d.namespaces() {
		zones, lacks := d.zones(namespace), d.lacks(namespace)
		usable := func(number int) bool { return !d.strange[place{namespace, name(number)}] }
		for range d.d.Shares[namespace] - d.count(namespace) {
			// Prefer a number that is already recorded for this namespace, in case an earlier process stopped before it
			// registered the host.
			i := slices.IndexFunc(loose, func(n int) bool { return usable(n) && d.Owners[n] == namespace })
			if i < 0 {
				i = slices.IndexFunc(loose, usable)
			}
			if i < 0 {
				break
			}
			zone := d.nextZone(zones, lacks)
			zones[zone]++
			lacks[zone]--
			d.d.Assign = append(d.d.Assign, Assignment{Number: loose[i], Namespace: namespace, Zone: zone})
			loose = slices.Delete(loose, i, i+1)
		}
	}
}

// balanceZones removes one free host of each namespace in which machines wait for a host of another zone, or in which
// the host's zone has at least two hosts more than another zone. The host is then registered again in the other zone.
func (d *decider) balanceZones() {
	for _, namespace := range d.namespaces() {
		zones, lacks := d.zones(namespace), d.lacks(namespace)
		next := d.nextZone(zones, lacks)
		var best *infrav1.CapstanHost
		for _, host := range d.of[namespace] {
			known := slices.Contains(d.Zones, host.Spec.Zone)
			helps := lacks[next] > 0 || zones[host.Spec.Zone] >= zones[next]+2
			if !known || host.Spec.Claim != nil || isMarked(host) || lacks[host.Spec.Zone] >= 0 || !helps {
				continue
			}
			if best == nil || numberOrZero(host) > numberOrZero(best) {
				best = host
			}
		}
		if best != nil && d.d.Shares[namespace] >= d.count(namespace) {
			d.remove(best)
		}
	}
}
