package capacity

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/extension/finding"
)

// State says why a host can or can't be had.
type State string

// States of a host, as they stand in messages.
const (
	// Free: nobody has it, and it can be claimed.
	Free State = "free"
	// Claimed: a machine has it.
	Claimed State = "claimed"
	// Cleaning: the machine that had it is gone; it comes back soon.
	Cleaning State = "being cleaned"
	// Enrolling: its agent has not reported yet; it comes soon.
	Enrolling State = "enrolling"
	// Unschedulable: an administrator keeps claims away.
	Unschedulable State = "unschedulable"
	// Offline: its heartbeat stopped.
	Offline State = "offline"
	// Quarantined: it could not be cleaned.
	Quarantined State = "quarantined"
)

// states in the order of messages.
var states = []State{Claimed, Cleaning, Enrolling, Unschedulable, Offline, Quarantined}

// Host is one host of the inventory.
type Host struct {
	// Zone is the failure domain that it is in.
	Zone string
	// Versions of Kubernetes that it offers. Empty: any.
	Versions []string
	// State says whether it can be had.
	State State
	// Cluster has the host, and goes on to have it. Empty if nobody does.
	Cluster string
}

func (h Host) offers(version string) bool {
	return version == "" || len(h.Versions) == 0 || slices.Contains(h.Versions, version)
}

// Need is a number of hosts of one sort.
type Need struct {
	// Zone that they have to be in. Empty: any.
	Zone string
	// Version of Kubernetes that they have to offer. Empty: any.
	Version string
	// Hosts is how many.
	Hosts int
}

// Cluster is one cluster that has or wants hosts of the inventory.
type Cluster struct {
	// Name, unique in the snapshot.
	Name string
	// Created is when the cluster was created.
	Created time.Time
	// Admitted is true once it was let through. It keeps its place, even if an older one appears.
	Admitted bool
	// Needs are all hosts that it shall have, with those that it has.
	Needs []Need
	// Bound are machines without a host that can have one in their zone only. They are among the Needs without a zone.
	Bound []Need
	// Besides are hosts that the cluster in question shall have anyway, with those that it has. Those of them that it has
	// not claimed yet are promised to it, and can't serve its Needs, which then are what comes on top.
	Besides []Need
	// Words of the message about it.
	Words Words
}

// Words say what hosts are for. The zero value is about a new cluster.
type Words struct {
	// Subject is who needs the hosts. Default: "cluster".
	Subject string
	// Remedy is what to do besides adding hosts. Default: "make the cluster smaller".
	Remedy string
	// Promised says to whom free hosts are promised. Default: "promised to other clusters".
	Promised string
}

// Decision is what came out.
type Decision struct {
	// Fits is true if the inventory can hold the cluster.
	Fits bool
	// Finding says why, in numbers, and what to do.
	finding.Finding
}

// Reasons of a decision.
const (
	// ReasonNoHostsNeeded: the cluster needs none.
	ReasonNoHostsNeeded = "NoHostsNeeded"
	// ReasonEnoughHosts: there are as many as it needs.
	ReasonEnoughHosts = "EnoughHosts"
	// ReasonTooFewHosts: there are fewer than that, wherever they are.
	ReasonTooFewHosts = "TooFewHosts"
	// ReasonTooFewHostsInZone: there are too few in one zone that it asks for.
	ReasonTooFewHostsInZone = "TooFewHostsInZone"
	// ReasonZonesShared: there are enough in each zone by itself, but others are promised some of them.
	ReasonZonesShared = "ZonesShared"
)

// Decide reports whether the hosts can hold the cluster beside the others.
func Decide(hosts []Host, others []Cluster, cluster Cluster) Decision {
	needs := compact(cluster.Needs)
	if total(needs) == 0 {
		none := finding.Finding{Reason: ReasonNoHostsNeeded, Message: "cluster needs no hosts"}
		return Decision{Fits: true, Finding: none}
	}
	inventory := newInventory(hosts)
	promises := promises(hosts, inventory, others, cluster)
	if inventory.holds(promises, needs) {
		all := describe(hosts, inventory, promises, "", needs, cluster.Words)
		return Decision{Fits: true, Finding: finding.Finding{Reason: ReasonEnoughHosts, Message: all.text()}}
	}
	return Decision{Finding: explain(hosts, inventory, promises, needs, cluster.Words)}
}

// promises gives the needs that come before those of the cluster.
func promises(hosts []Host, inventory inventory, others []Cluster, cluster Cluster) []Need {
	promised := outstanding(hosts, Cluster{Name: cluster.Name, Needs: cluster.Besides, Bound: cluster.Bound})
	var waiting []Cluster
	for _, other := range others {
		switch {
		case other.Name == cluster.Name:
		case other.Admitted:
			promised = append(promised, outstanding(hosts, other)...)
		case !cluster.Admitted && older(other, cluster): // what was let through is not taken back for one that waits
			waiting = append(waiting, other)
		}
	}
	slices.SortFunc(waiting, func(a, b Cluster) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Name, b.Name))
	})
	for _, other := range waiting {
		if needs := compact(other.Needs); inventory.holds(promised, needs) {
			promised = append(promised, needs...)
		}
	}
	return promised
}

func older(a, b Cluster) bool {
	return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Name, b.Name)) < 0
}

// outstanding gives what a cluster needs and has not claimed. Hosts that it has in a zone serve needs in that zone
// first.
func outstanding(hosts []Host, cluster Cluster) []Need {
	has := map[string]int{} // by zone
	for _, h := range hosts {
		if h.Cluster == cluster.Name {
			has[h.Zone]++
		}
	}
	needs := compact(cluster.Needs)
	for i := range needs {
		if needs[i].Zone != "" {
			served := min(needs[i].Hosts, has[needs[i].Zone])
			needs[i].Hosts -= served
			has[needs[i].Zone] -= served
		}
	}
	left := 0
	for _, n := range has {
		left += n
	}
	// What is left serves any zone, then needs elsewhere: the machine stands, wherever it does. Needs without a zone sort
	// last, hence backwards.
	for i := len(needs) - 1; i >= 0; i-- {
		served := min(needs[i].Hosts, left)
		needs[i].Hosts -= served
		left -= served
	}
	return compact(bind(needs, cluster.Bound))
}

// bind puts as much of the needs without a zone into the zones of machines that are bound to one.
func bind(needs, bound []Need) []Need {
	zoned := slices.Clone(needs)
	for _, b := range bound {
		for i := range needs {
			if zoned[i].Zone != "" || zoned[i].Version != b.Version {
				continue
			}
			moved := min(zoned[i].Hosts, b.Hosts)
			zoned[i].Hosts -= moved
			zoned = append(zoned, Need{Zone: b.Zone, Version: b.Version, Hosts: moved})
		}
	}
	return zoned
}

// compact joins needs of the same sort, drops empty ones, and sorts: those with a zone first.
func compact(needs []Need) []Need {
	sums := map[Need]int{}
	for _, n := range needs {
		sums[Need{Zone: n.Zone, Version: n.Version}] += max(n.Hosts, 0)
	}
	var joined []Need
	for n, hosts := range sums {
		if hosts > 0 {
			n.Hosts = hosts
			joined = append(joined, n)
		}
	}
	slices.SortFunc(joined, func(a, b Need) int {
		if (a.Zone == "") != (b.Zone == "") {
			return strings.Compare(b.Zone, a.Zone)
		}
		return cmp.Or(strings.Compare(a.Zone, b.Zone), strings.Compare(a.Version, b.Version))
	})
	return joined
}

func total(needs []Need) int {
	sum := 0
	for _, n := range needs {
		sum += n.Hosts
	}
	return sum
}
