package capacity

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/extension/finding"
)

// State says why a host is or is not available.
type State string

// The states of a host, worded for messages.
const (
	// Free hosts have no machine and can be claimed.
	Free State = "free"
	// Claimed hosts have a machine.
	Claimed State = "claimed"
	// Cleaning hosts have lost their machine and will soon be free again.
	Cleaning State = "being cleaned"
	// Enrolling hosts have an agent that has not reported yet but soon will.
	Enrolling State = "enrolling"
	// Unschedulable hosts are closed to claims by an administrator.
	Unschedulable State = "unschedulable"
	// Offline hosts have stopped sending heartbeats.
	Offline State = "offline"
	// Quarantined hosts could not be cleaned.
	Quarantined State = "quarantined"
)

// states are the states in the order in which messages list them.
var states = []State{Claimed, Cleaning, Enrolling, Unschedulable, Offline, Quarantined}

// Host is one host of the inventory.
type Host struct {
	// Zone is the host's failure domain.
	Zone string
	// Versions are the Kubernetes versions that the host offers. Empty means any.
	Versions []string
	// State says whether the host is available.
	State State
	// Cluster is the cluster that has the host and keeps it. It is empty if there is none.
	Cluster string
	// Meets lists the limits of needs that the host meets, sorted.
	Meets []string
}

func (h Host) offers(version string) bool {
	return version == "" || len(h.Versions) == 0 || slices.Contains(h.Versions, version)
}

// meets reports whether the host is within the limits of a need.
func (h Host) meets(limits string) bool { return limits == "" || slices.Contains(h.Meets, limits) }

// Need is a number of hosts of one kind.
type Need struct {
	// Zone is the zone that the hosts must be in. Empty means any.
	Zone string
	// Version is the Kubernetes version that the hosts must offer. Empty means any.
	Version string
	// Limits names what else the hosts must have, for example "labels disk=ssd". Empty means nothing.
	Limits string
	// Hosts is the number of hosts.
	Hosts int
}

// Cluster is a cluster that has or wants hosts of the inventory.
type Cluster struct {
	// Name is unique in the snapshot.
	Name string
	// Created is when the cluster was created.
	Created time.Time
	// Admitted reports whether the cluster was let through before. An admitted cluster keeps its place even if an older
	// cluster appears.
	Admitted bool
	// Needs are all hosts that the cluster is meant to have, including those it has.
	Needs []Need
	// Bound lists the machines without a host that can use only hosts in their zone. Needs contains them without a
	// zone.
	Bound []Need
	// Besides lists the hosts that the cluster in question is meant to have in any case, including those it has. Those
	// that it has not claimed yet are promised to it. None of these hosts can serve its Needs, which are for additional
	// hosts.
	Besides []Need
	// Words are used in the message about the cluster.
	Words Words
}

// Words say what the hosts are for. The zero value describes a new cluster.
type Words struct {
	// Subject is who needs the hosts. Default: "cluster".
	Subject string
	// Remedy is what to do other than adding hosts. Default: "make the cluster smaller".
	Remedy string
	// Promised says to whom free hosts are promised. Default: "promised to other clusters".
	Promised string
}

// Decision is the result of [Decide].
type Decision struct {
	// Fits reports whether the inventory can hold the cluster.
	Fits bool
	// Finding has the reason, with numbers and what to do.
	finding.Finding
}

// Reasons of a decision.
const (
	// ReasonNoHostsNeeded means that the cluster needs no hosts.
	ReasonNoHostsNeeded = "NoHostsNeeded"
	// ReasonEnoughHosts means that there are enough hosts.
	ReasonEnoughHosts = "EnoughHosts"
	// ReasonTooFewHosts means that all zones together have too few hosts, of all kinds or of one kind.
	ReasonTooFewHosts = "TooFewHosts"
	// ReasonTooFewHostsInZone means that there are too few hosts in a zone that the cluster needs.
	ReasonTooFewHostsInZone = "TooFewHostsInZone"
	// ReasonZonesShared means that each zone has enough hosts by itself, but some of them are promised to others.
	ReasonZonesShared = "ZonesShared"
)

// Decide reports whether the hosts can hold the cluster in addition to the others.
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

// promises returns the needs that take precedence over those of the cluster.
func promises(hosts []Host, inventory inventory, others []Cluster, cluster Cluster) []Need {
	promised := outstanding(hosts, Cluster{Name: cluster.Name, Needs: cluster.Besides, Bound: cluster.Bound})
	var waiting []Cluster
	for _, other := range others {
		switch {
		case other.Name == cluster.Name:
		case other.Admitted:
			promised = append(promised, outstanding(hosts, other)...)
		case !cluster.Admitted && older(other, cluster): // an older waiting cluster does not take hosts from an admitted one
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

// outstanding returns what a cluster needs and has not claimed. Each of the cluster's hosts counts towards one need: if
// possible, a need in the host's zone whose limits the host meets.
func outstanding(hosts []Host, cluster Cluster) []Need {
	var has []Host
	for _, h := range hosts {
		if h.Cluster == cluster.Name {
			has = append(has, h)
		}
	}
	needs := compact(cluster.Needs)
	serve := func(serves func(Host, Need) bool) {
		for i := len(needs) - 1; i >= 0; i-- { // needs with limits come before those of the same zone without
			need := &needs[i]
			has = slices.DeleteFunc(has, func(h Host) bool {
				served := need.Hosts > 0 && serves(h, *need)
				if served {
					need.Hosts--
				}
				return served
			})
		}
	}
	serve(func(h Host, n Need) bool { return n.Zone == h.Zone && h.meets(n.Limits) })
	// Remaining hosts serve needs for any zone, then needs for other zones, because the machine exists wherever it is.
	// Needs without a zone are last in the slice and so are served first.
	serve(func(h Host, n Need) bool { return h.meets(n.Limits) })
	serve(func(Host, Need) bool { return true })
	return compact(bind(needs, cluster.Bound))
}

// bind assigns needs without a zone, as many as possible, to the zones of bound machines.
func bind(needs, bound []Need) []Need {
	zoned := slices.Clone(needs)
	for _, b := range bound {
		for i := range needs {
			if zoned[i].Zone != "" || zoned[i].Version != b.Version || zoned[i].Limits != b.Limits {
				continue
			}
			moved := min(zoned[i].Hosts, b.Hosts)
			zoned[i].Hosts -= moved
			zoned = append(zoned, Need{Zone: b.Zone, Version: b.Version, Limits: b.Limits, Hosts: moved})
		}
	}
	return zoned
}

// compact merges needs of the same kind, drops empty ones and sorts the rest, those with a zone first.
func compact(needs []Need) []Need {
	sums := map[Need]int{}
	for _, n := range needs {
		sums[Need{Zone: n.Zone, Version: n.Version, Limits: n.Limits}] += max(n.Hosts, 0)
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
		return cmp.Or(strings.Compare(a.Zone, b.Zone), strings.Compare(a.Limits, b.Limits),
			strings.Compare(a.Version, b.Version))
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
