package capacity

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

var morning = time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)

func hosts(n int, host Host) []Host {
	var all []Host
	for range n {
		all = append(all, host)
	}
	return all
}

func join(parts ...[]Host) []Host {
	var all []Host
	for _, part := range parts {
		all = append(all, part...)
	}
	return all
}

func free(n int) []Host                { return hosts(n, Host{State: Free, Zone: "zone-a"}) }
func freeIn(zone string, n int) []Host { return hosts(n, Host{State: Free, Zone: zone}) }
func claimed(n int, cluster string) []Host {
	return hosts(n, Host{State: Claimed, Zone: "zone-a", Cluster: cluster})
}
func in(state State, n int) []Host { return hosts(n, Host{State: state, Zone: "zone-a"}) }

const ssd = "labels disk=ssd"

// meeting returns free hosts within limits.
func meeting(n int, limits string) []Host {
	return hosts(n, Host{State: Free, Zone: "zone-a", Meets: []string{limits}})
}

// limited returns a need within limits.
func limited(n int, limits string) []Need {
	return []Need{{Version: "v1.36.3", Limits: limits, Hosts: n}}
}

func anywhere(n int) []Need { return []Need{{Version: "v1.36.3", Hosts: n}} }

// cluster returns a cluster that waits; minute is when it was created.
func cluster(name string, minute int, needs ...Need) Cluster {
	return Cluster{Name: name, Created: morning.Add(time.Duration(minute) * time.Minute), Needs: needs}
}

func admitted(name string, needs ...Need) Cluster {
	return Cluster{Name: name, Created: morning, Admitted: true, Needs: needs}
}

// reasonOf returns the reason that belongs to a message.
func reasonOf(fits bool, message string) string {
	switch {
	case message == "cluster needs no hosts":
		return ReasonNoHostsNeeded
	case fits:
		return ReasonEnoughHosts
	case strings.Contains(message, "but not all of them in the zones"):
		return ReasonZonesShared
	case strings.HasSuffix(message, "add hosts there, or change the failure domains"):
		return ReasonTooFewHostsInZone
	}
	return ReasonTooFewHosts
}

func TestDecide(t *testing.T) {
	zoneB := Need{Zone: "zone-b", Version: "v1.36.3", Hosts: 2}
	for name, c := range map[string]struct {
		hosts  []Host
		others []Cluster
		needs  []Need
		fits   bool
		want   string
	}{
		"enough free hosts": {
			free(8), nil, anywhere(3), true,
			"cluster needs 3 hosts, 8 of 8 are free",
		},
		"exactly enough": {
			join(free(3), claimed(1, "old")), nil, anywhere(3), true,
			"cluster needs 3 hosts, 3 of 4 are free (1 claimed)",
		},
		"too few, because others are claimed or offline": {
			join(free(4), claimed(3, "old"), in(Offline, 1)), nil, anywhere(6), false,
			"cluster needs 6 hosts, 4 of 8 are free (3 claimed, 1 offline): add hosts, or make the cluster smaller",
		},
		"the message has a word for every state": {
			join(free(1), claimed(1, "old"), in(Cleaning, 1), in(Enrolling, 1), in(Unschedulable, 1), in(Offline, 1),
				in(Quarantined, 1)), nil, anywhere(2), false,
			"cluster needs 2 hosts, 1 of 7 is free (1 claimed, 1 being cleaned, 1 enrolling, 1 unschedulable, 1 offline, 1 " +
				"quarantined): add hosts, or make the cluster smaller",
		},
		"no hosts at all": {
			nil, nil, anywhere(1), false,
			"cluster needs 1 host, there are none: add hosts, or make the cluster smaller",
		},
		"a cluster that needs none": {
			nil, nil, anywhere(0), true, "cluster needs no hosts",
		},
		"hosts that offer another version": {
			join(hosts(2, Host{State: Free, Versions: []string{"v1.35.0"}}),
				hosts(1, Host{State: Free, Versions: []string{"v1.36.3", "v1.35.0"}})), nil, anywhere(2), false,
			"cluster needs 2 hosts, 1 of 3 is free (2 without Kubernetes v1.36.3): add hosts, or make the cluster smaller",
		},
		"hosts that offer any version": {
			join(hosts(1, Host{State: Free, Versions: []string{"v1.36.3"}}), hosts(1, Host{State: Free})), nil,
			anywhere(2), true,
			"cluster needs 2 hosts, 2 of 2 are free",
		},
		"a need without a version": {
			hosts(2, Host{State: Free, Versions: []string{"v1.35.0"}}), nil, []Need{{Hosts: 2}}, true,
			"cluster needs 2 hosts, 2 of 2 are free",
		},
		"enough in the zone": {
			join(freeIn("zone-a", 1), freeIn("zone-b", 2)), nil, []Need{zoneB, {Version: "v1.36.3", Hosts: 1}}, true,
			"cluster needs 3 hosts, 3 of 3 are free",
		},
		"too few in the zone": {
			join(freeIn("zone-a", 6), freeIn("zone-b", 1), hosts(2, Host{State: Claimed, Zone: "zone-b", Cluster: "old"})), nil,
			[]Need{zoneB, {Version: "v1.36.3", Hosts: 1}}, false,
			"cluster needs 2 hosts in zone-b, 1 of 3 there is free (2 claimed): add hosts there, or change the failure domains",
		},
		"no such zone": {
			freeIn("zone-a", 6), nil, []Need{zoneB}, false,
			"cluster needs 2 hosts in zone-b, there are none: add hosts there, or change the failure domains",
		},
		"needs without a zone go where there is room": {
			join(freeIn("zone-a", 2), freeIn("zone-b", 2)), nil, []Need{{Version: "v1.36.3", Hosts: 2}, zoneB}, true,
			"cluster needs 4 hosts, 4 of 4 are free",
		},

		// Promises.
		"hosts of a cluster that is being created are promised": {
			free(4), []Cluster{admitted("first", anywhere(3)...)}, anywhere(2), false,
			"cluster needs 2 hosts, 1 of 4 is free (3 promised to other clusters): add hosts, or make the cluster smaller",
		},
		"hosts that the other cluster has claimed are not promised again": {
			join(free(3), claimed(2, "first")), []Cluster{admitted("first", anywhere(3)...)}, anywhere(2), true,
			"cluster needs 2 hosts, 2 of 5 are free (2 claimed, 1 promised to other clusters)",
		},
		"a cluster that has all its hosts takes no more": {
			join(free(2), claimed(3, "first")), []Cluster{admitted("first", anywhere(3)...)}, anywhere(2), true,
			"cluster needs 2 hosts, 2 of 5 are free (3 claimed)",
		},
		"a cluster that has more than it needs, in a rollout, takes no more": {
			join(free(2), claimed(4, "first")), []Cluster{admitted("first", anywhere(3)...)}, anywhere(2), true,
			"cluster needs 2 hosts, 2 of 6 are free (4 claimed)",
		},
		"a running cluster that is scaled up comes first": {
			join(free(2), claimed(3, "first")), []Cluster{admitted("first", anywhere(5)...)}, anywhere(1), false,
			"cluster needs 1 host, 0 of 5 are free (3 claimed, 2 promised to other clusters): add hosts, or make the cluster " +
				"smaller",
		},
		"two at once: the older one passes": {
			free(3), []Cluster{cluster("younger", 2, anywhere(3)...)}, anywhere(3), true,
			"cluster needs 3 hosts, 3 of 3 are free",
		},
		"two at once: the younger one waits": {
			free(3), []Cluster{cluster("older", 0, anywhere(3)...)}, anywhere(3), false,
			"cluster needs 3 hosts, 0 of 3 are free (3 promised to other clusters): add hosts, or make the cluster smaller",
		},
		"created in the same second: the name decides, for the first": {
			free(3), []Cluster{cluster("zz", 1, anywhere(3)...)}, anywhere(3), true,
			"cluster needs 3 hosts, 3 of 3 are free",
		},
		"created in the same second: the name decides, for the second": {
			free(3), []Cluster{cluster("aa", 1, anywhere(3)...)}, anywhere(3), false,
			"cluster needs 3 hosts, 0 of 3 are free (3 promised to other clusters): add hosts, or make the cluster smaller",
		},
		"a younger cluster that was let through already keeps its promise": {
			free(3), []Cluster{{Name: "younger", Created: morning.Add(time.Hour), Admitted: true, Needs: anywhere(3)}},
			anywhere(3), false,
			"cluster needs 3 hosts, 0 of 3 are free (3 promised to other clusters): add hosts, or make the cluster smaller",
		},
		"an older cluster that is too large does not keep a small one waiting": {
			free(3), []Cluster{cluster("huge", 0, anywhere(100)...)}, anywhere(3), true,
			"cluster needs 3 hosts, 3 of 3 are free",
		},
		"of older clusters, those that fit come first": {
			free(5), []Cluster{cluster("huge", -2, anywhere(100)...), cluster("small", -1, anywhere(2)...)}, anywhere(4), false,
			"cluster needs 4 hosts, 3 of 5 are free (2 promised to other clusters): add hosts, or make the cluster smaller",
		},
		"a promise that can't be kept blocks no other zone": {
			freeIn("zone-a", 2), []Cluster{admitted("stuck", Need{Zone: "zone-x", Version: "v1.36.3", Hosts: 5})},
			anywhere(2), true,
			"cluster needs 2 hosts, 2 of 2 are free",
		},
		"a promise with a zone leaves other zones free": {
			join(freeIn("zone-a", 2), freeIn("zone-b", 2)), []Cluster{admitted("first", zoneB)}, anywhere(2), true,
			"cluster needs 2 hosts, 2 of 4 are free (2 promised to other clusters)",
		},
		"a promise without a zone makes room": {
			join(freeIn("zone-a", 2), freeIn("zone-b", 2)), []Cluster{admitted("first", anywhere(2)...)}, []Need{zoneB}, true,
			"cluster needs 2 hosts, 2 of 4 are free (2 promised to other clusters)",
		},
		"a promise with another version makes room": {
			join(hosts(2, Host{State: Free, Versions: []string{"v1.35.0", "v1.36.3"}}),
				hosts(2, Host{State: Free, Versions: []string{"v1.35.0"}})),
			[]Cluster{admitted("first", Need{Version: "v1.35.0", Hosts: 2})}, anywhere(2), true,
			"cluster needs 2 hosts, 2 of 4 are free (2 without Kubernetes v1.36.3)",
		},
		"a cluster's host in a zone serves its need there": {
			join(freeIn("zone-b", 1), hosts(1, Host{State: Claimed, Zone: "zone-b", Cluster: "first"})),
			[]Cluster{admitted("first", zoneB)}, anywhere(1), false,
			"cluster needs 1 host, 0 of 2 are free (1 claimed, 1 promised to other clusters): add hosts, or make the cluster " +
				"smaller",
		},
		"the cluster itself among the others does not count twice": {
			free(3), []Cluster{cluster("mine", 1, anywhere(3)...)}, anywhere(3), true,
			"cluster needs 3 hosts, 3 of 3 are free",
		},
		"hosts that machines can't use": {
			join(free(2), meeting(1, ssd), claimed(1, "old")), nil, limited(1, ssd), true,
			"cluster needs 1 host with labels disk=ssd, 1 of 4 is free (1 claimed, 2 without them)",
		},
		"too few that machines can use": {
			join(free(2), meeting(1, ssd)), nil, limited(2, ssd), false,
			"cluster needs 2 hosts with labels disk=ssd, 1 of 3 is free (2 without them): add hosts, or make the cluster " +
				"smaller",
		},
		"enough for all machines, but not for each kind": {
			join(free(3), meeting(1, ssd)), nil, append(limited(2, ssd), anywhere(1)...), false,
			"cluster needs 2 hosts with labels disk=ssd, 1 of 4 is free (3 without them): add hosts, or make the cluster " +
				"smaller",
		},
		"machines without limits leave the hosts with labels to machines that need them": {
			join(free(1), meeting(1, ssd)), nil, append(limited(1, ssd), anywhere(1)...), true,
			"cluster needs 2 hosts, 2 of 2 are free",
		},
		"two kinds of machines, and a host that neither can use": {
			join(free(1), meeting(1, ssd), meeting(1, "labels gpu=a")), nil,
			append(limited(1, ssd), limited(1, "labels gpu=a")...), true,
			"cluster needs 2 hosts, 2 of 3 are free (1 without what machines select)",
		},
		"hosts promised to machines that can use no others": {
			join(free(1), meeting(1, ssd)), []Cluster{admitted("first", limited(1, ssd)...)}, limited(1, ssd), false,
			"cluster needs 1 host with labels disk=ssd, 0 of 2 are free (1 promised to other clusters, 1 without them): add " +
				"hosts, or make the cluster smaller",
		},
		"a host that a cluster has counts for the machine that can use no other": {
			join(meeting(1, ssd), hosts(1, Host{State: Claimed, Zone: "zone-a", Cluster: "first", Meets: []string{ssd}})),
			[]Cluster{admitted("first", append(limited(1, ssd), anywhere(1)...)...)}, limited(1, ssd), false,
			"cluster needs 1 host with labels disk=ssd, 0 of 2 are free (1 claimed, 1 promised to other clusters): add " +
				"hosts, or make the cluster smaller",
		},
		"a cluster's machine without limits can use another host": {
			join(free(1), meeting(1, ssd),
				hosts(1, Host{State: Claimed, Zone: "zone-a", Cluster: "first", Meets: []string{ssd}})),
			[]Cluster{admitted("first", append(limited(1, ssd), anywhere(1)...)...)}, limited(1, ssd), true,
			"cluster needs 1 host with labels disk=ssd, 1 of 3 is free (1 claimed, 1 without them)",
		},
		"zones that each have enough, but not together": {
			join(hosts(1, Host{State: Free, Zone: "zone-a"}), hosts(1, Host{State: Free, Zone: "zone-b"}), in(Offline, 1)),
			[]Cluster{admitted("first", Need{Zone: "zone-a", Version: "v1.36.3", Hosts: 1})},
			[]Need{{Zone: "zone-a", Version: "v1.36.3", Hosts: 1}}, false,
			"cluster needs 1 host in zone-a, 0 of 2 there are free (1 promised to other clusters, 1 offline): add hosts " +
				"there, or change the failure domains",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Decide(c.hosts, c.others, cluster("mine", 1, c.needs...))
			if got.Fits != c.fits || got.Message != c.want {
				t.Errorf("%t %q\nwant %t %q", got.Fits, got.Message, c.fits, c.want)
			}
			if reason := reasonOf(c.fits, c.want); got.Reason != reason {
				t.Errorf("the reason of %q is %s, want %s", got.Message, got.Reason, reason)
			}
		})
	}
}

func TestWhatWasLetThroughKeepsItsPlace(t *testing.T) {
	mine := cluster("mine", 1, anywhere(3)...)
	mine.Admitted = true
	if got := Decide(free(3), []Cluster{cluster("older", 0, anywhere(3)...)}, mine); !got.Fits {
		t.Errorf("an older cluster that waits took its place: %s", got.Message)
	}
	if got := Decide(free(3), []Cluster{admitted("other", anywhere(1)...)}, mine); got.Fits {
		t.Errorf("the cluster passes although another cluster was let through, which leaves no room: %s", got.Message)
	}
}

// Law: in whatever order waiting clusters ask, and however often, the clusters let through never need more hosts than
// exist, no cluster that fits alone starves, and the same question has the same answer.
func TestLaws(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	zones := []string{"", "zone-a", "zone-b", "zone-c"}
	for round := range 300 {
		var inventory []Host
		for range random.IntN(12) {
			inventory = append(inventory, Host{
				State: []State{Free, Free, Free, Offline}[random.IntN(4)], Zone: zones[1+random.IntN(3)],
				Meets: [][]string{nil, {ssd}, {"labels gpu=a"}, {ssd, "labels gpu=a"}}[random.IntN(4)],
			})
		}
		var clusters []Cluster
		for i := range 1 + random.IntN(5) {
			c := cluster(fmt.Sprintf("c%d", i), random.IntN(3), anywhere(random.IntN(4))...)
			c.Needs = append(c.Needs, Need{Zone: zones[random.IntN(4)], Version: "v1.36.3", Hosts: random.IntN(3)},
				Need{Version: "v1.36.3", Limits: []string{"", ssd, "labels gpu=a"}[random.IntN(3)], Hosts: random.IntN(2)})
			clusters = append(clusters, c)
		}
		for range 4 * len(clusters) {
			i := random.IntN(len(clusters))
			if clusters[i].Admitted {
				continue
			}
			first := Decide(inventory, clusters, clusters[i])
			if again := Decide(inventory, clusters, clusters[i]); again != first {
				t.Fatalf("round %d: the same question has the answers %+v and then %+v", round, first, again)
			}
			clusters[i].Admitted = first.Fits
		}
		var through []Need
		for _, c := range clusters {
			if c.Admitted {
				through = append(through, compact(c.Needs)...)
			}
		}
		if !newInventory(inventory).holds(nil, through) {
			t.Fatalf("round %d: clusters %+v were let through to hosts %+v", round, clusters, inventory)
		}
		// The oldest of the clusters that wait and fit in addition to the promised hosts must be let through.
		for _, c := range clusters {
			if !c.Admitted && newInventory(inventory).holds(through, compact(c.Needs)) {
				oldest := true
				for _, other := range clusters {
					oldest = oldest && (other.Admitted || !older(other, c))
				}
				if oldest && !Decide(inventory, clusters, c).Fits {
					t.Fatalf("round %d: %+v starves", round, c)
				}
			}
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	var inventory []Host
	for i := range 2000 {
		inventory = append(inventory, Host{
			State: Free, Zone: fmt.Sprintf("zone-%d", i%9), Versions: []string{"v1.36.3", fmt.Sprintf("v1.35.%d", i%4)},
		})
	}
	var others []Cluster
	for i := range 200 {
		others = append(others, admitted(fmt.Sprintf("c%d", i),
			Need{Zone: fmt.Sprintf("zone-%d", i%9), Version: "v1.36.3", Hosts: 3}, Need{Version: "v1.36.3", Hosts: 5}))
	}
	mine := cluster("mine", 1, anywhere(300)...)
	b.ReportAllocs()
	for b.Loop() {
		Decide(inventory, others, mine)
	}
}
