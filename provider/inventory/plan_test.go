package inventory

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// at returns a host from "namespace/name zone", optionally followed by words: claimed, going (for a second), stuck (for
// an hour), marked, off (unschedulable).
func at(t testing.TB, text string) infrav1.CapstanHost {
	t.Helper()
	words := strings.Fields(text)
	namespace, name, _ := strings.Cut(words[0], "/")
	h := infrav1.CapstanHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: []string{infrav1.HostFinalizer}},
		Spec:       infrav1.CapstanHostSpec{Zone: words[1], Supplier: infrav1.SupplierDock},
	}
	for _, word := range words[2:] {
		switch word {
		case "claimed":
			h.Spec.Claim = &infrav1.HostClaim{Machine: "m"}
		case "going":
			h.DeletionTimestamp = &metav1.Time{Time: now.Add(-time.Second)}
		case "stuck":
			h.DeletionTimestamp = &metav1.Time{Time: now.Add(-time.Hour)}
		case "marked":
			h.Labels = map[string]string{"disk": "fast"}
		case "off":
			h.Spec.Unschedulable = true
		case "owned":
			h.Spec.Supplier = ""
		default:
			t.Fatalf("unknown word %q", word)
		}
	}
	return h
}

// showDecision returns a decision in one line.
func showDecision(d Decision) string {
	var parts []string
	for _, h := range d.Remove {
		parts = append(parts, "-"+h.Namespace+"/"+h.Name)
	}
	for _, a := range d.Assign {
		parts = append(parts, fmt.Sprintf("+%s/%s:%s", a.Namespace, name(a.Number), a.Zone))
	}
	for _, n := range d.Forget {
		parts = append(parts, fmt.Sprintf("forget %d", n))
	}
	return strings.Join(parts, " ")
}

func TestDecide(t *testing.T) {
	a := Demand{Namespace: "a", Asks: true}
	wants := func(n int) Demand { return Demand{Namespace: "a", Asks: true, Wants: n} }
	for name, c := range map[string]struct {
		budget  int
		hosts   []string
		owners  map[int]string // of numbers without a host in the recorded namespace
		demands []Demand       // in addition to that of Home
		want    string
	}{
		"an empty inventory, zones in turn": {budget: 4,
			want: "+default/host-01:x +default/host-02:y +default/host-03:x +default/host-04:y"},
		"a gap is filled": {budget: 2, hosts: []string{"default/host-02 y"}, want: "+default/host-01:x"},
		"growing keeps the existing hosts": {budget: 2, hosts: []string{"default/host-01 elsewhere claimed"},
			want: "+default/host-02:x"},
		"shrinking removes free hosts only": {budget: 1,
			hosts: []string{"default/host-01 x", "default/host-02 y claimed", "default/host-03 x"}, want: "-default/host-03"},
		"a claimed host beyond the budget stays, and does not count towards the budget": {budget: 1,
			hosts: []string{"default/host-01 x", "default/host-02 y claimed"}},
		"numbers beyond the budget are forgotten once their hosts are gone": {budget: 1,
			hosts: []string{"default/host-01 x"}, owners: map[int]string{7: "a"}, want: "forget 7"},
		"a budget of 0": {budget: 0, hosts: []string{"default/host-01 x"}, want: "-default/host-01"},
		"owned hosts and hosts with other names are left alone": {budget: 0,
			hosts: []string{"default/host-07 x owned", "default/host-007 x", "default/rack x", "default/host- x"}},
		"a namespace asks: free hosts are taken from the fullest zone, the highest number first": {budget: 4,
			hosts:   []string{"default/host-01 x", "default/host-02 y", "default/host-03 x", "default/host-04 y claimed"},
			demands: []Demand{wants(1)}, want: "-default/host-03 -default/host-02"},
		"a host that somebody has marked is taken last": {budget: 2,
			hosts:   []string{"default/host-01 x", "default/host-02 x marked"},
			demands: []Demand{a}, want: "-default/host-01"},
		"a host that nobody may claim is taken last": {budget: 2,
			hosts:   []string{"default/host-01 x", "default/host-02 x off"},
			demands: []Demand{a}, want: "-default/host-01"},
		"nothing is taken while a number is about to become free": {budget: 4,
			hosts:   []string{"default/host-01 x", "default/host-02 y", "a/host-03 x", "default/host-04 y going"},
			demands: []Demand{a}},
		"a free number goes to the namespace that lacks a host": {budget: 4,
			hosts: []string{"default/host-01 x", "default/host-02 y", "a/host-03 x"}, owners: map[int]string{4: "default"},
			demands: []Demand{a}, want: "+a/host-04:y"},
		"a number that is recorded for a namespace stays there": {budget: 4,
			hosts:   []string{"default/host-01 x", "a/host-02 y"},
			owners:  map[int]string{3: "a", 4: "default"},
			demands: []Demand{a}, want: "+default/host-04:y +a/host-03:x"},
		"a namespace that does not ask any more gives its free hosts back": {budget: 3,
			hosts: []string{"default/host-01 x", "a/host-02 x claimed", "a/host-03 y"}, want: "-a/host-03"},
		"nothing moves when each namespace has its share": {budget: 3,
			hosts:   []string{"default/host-01 x", "default/host-03 y", "a/host-02 x"},
			demands: []Demand{a}},
		"a host whose deletion is stuck counts towards its namespace's share": {budget: 4,
			hosts:   []string{"default/host-01 x", "a/host-02 x", "a/host-03 y", "a/host-04 y stuck"},
			demands: []Demand{a}, want: "-a/host-03"},
		"a host that somebody else has made is removed, unless it is claimed": {budget: 1,
			hosts:  []string{"a/host-01 x", "b/host-01 x claimed", "a/host-09 x"},
			owners: map[int]string{1: "default"}, want: "-a/host-01 -a/host-09 +default/host-01:x"},
		"a number is not registered while another namespace has a host with it": {budget: 1,
			hosts: []string{"default/host-01 x claimed"}, owners: map[int]string{1: "a"}},
		"zones are balanced when all else is settled": {budget: 4,
			hosts: []string{"default/host-01 x", "default/host-02 x", "default/host-03 x", "default/host-04 y"},
			want:  "-default/host-03"},
		"a host is registered in the zone where a machine waits": {budget: 3,
			hosts:   []string{"default/host-01 x claimed", "a/host-02 y"},
			demands: []Demand{{Namespace: "a", Asks: true, Wants: 2, Zones: map[string]int{"y": 2}}}, want: "+a/host-03:y"},
		"a host that a machine waits for is removed last": {budget: 4,
			hosts: []string{"default/host-01 x", "a/host-02 x", "a/host-03 x", "a/host-04 y"},
			demands: []Demand{{Namespace: "a", Asks: true, Wants: 1, Zones: map[string]int{"y": 1}},
				{Namespace: "b", Asks: true, Wants: 1}}, want: "-a/host-03"},
		"a free host moves to the zone where a machine waits": {budget: 2,
			hosts:   []string{"default/host-01 x claimed", "a/host-02 x"},
			demands: []Demand{{Namespace: "a", Asks: true, Wants: 1, Zones: map[string]int{"y": 1}}}, want: "-a/host-02"},
		"machines wait for all free hosts, so none moves to another zone": {budget: 3,
			hosts:   []string{"a/host-01 x", "a/host-02 x", "a/host-03 y claimed"},
			demands: []Demand{{Namespace: "a", Asks: true, Wants: 3, Zones: map[string]int{"x": 2, "y": 1}}}},
		"hosts in zones that no longer exist stay": {budget: 3,
			hosts: []string{"default/host-01 old", "default/host-02 old", "default/host-03 old"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := Picture{Budget: c.budget, Zones: []string{"x", "y"}, Owners: map[int]string{}, Now: now,
				Demands: append([]Demand{{Namespace: Home, Asks: true}}, c.demands...)}
			for _, text := range c.hosts {
				h := at(t, text)
				p.Hosts = append(p.Hosts, h)
				if n, ours := numberOf(&h); ours && n < 9 {
					p.Owners[n] = h.Namespace
				}
			}
			maps.Copy(p.Owners, c.owners)
			if got := showDecision(Decide(p)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// FuzzDecide simulates an inventory: demands change, hosts are claimed and released, and decisions are carried out in
// part. No number may ever exist twice, and no claimed host may go. Once demands stop changing, everything must settle
// in a few steps, each namespace must have its share, and its zones must be balanced as far as claims allow.
func FuzzDecide(f *testing.F) {
	for seed := range uint64(100) {
		f.Add(seed, uint8(seed%17))
	}
	f.Fuzz(func(t *testing.T, seed uint64, size uint8) {
		w := &life{t: t, random: rand.New(rand.NewPCG(seed, 2)), budget: int(size % 40), owners: map[int]string{}}
		for range 30 {
			w.change()
			w.step(true)
		}
		demands := w.demands
		for range 8 + 2*len(w.hosts) {
			w.demands = demands
			if w.step(false).IsSettled() {
				w.settled()
				return
			}
		}
		t.Fatalf("not settled: %s", showDecision(w.step(false)))
	})
}

// life is an inventory in memory.
type life struct {
	t       *testing.T
	random  *rand.Rand
	budget  int
	hosts   []infrav1.CapstanHost
	owners  map[int]string
	demands []Demand
}

// change makes a random change, as users and machines do.
func (w *life) change() {
	w.demands = anyDemands(w.random, w.budget, true)
	for i := range w.demands {
		w.demands[i].Step = 0
		w.demands[i].Zones = map[string]int{"x": w.random.IntN(3), "z": w.random.IntN(2)}
	}
	for i := range w.hosts {
		switch h := &w.hosts[i]; w.random.IntN(4) {
		case 0:
			if h.DeletionTimestamp.IsZero() {
				h.Spec.Claim = &infrav1.HostClaim{Machine: "m"}
			}
		case 1:
			h.Spec.Claim = nil
		}
	}
	if w.random.IntN(10) == 0 {
		w.budget = max(0, w.budget+w.random.IntN(5)-2)
	}
}

// step carries out a decision or a part of it, and removes hosts that are being deleted.
func (w *life) step(partly bool) Decision {
	does := func() bool { return !partly || w.random.IntN(3) > 0 }
	d := Decide(Picture{Budget: w.budget, Zones: []string{"x", "y", "z"}, Hosts: slices.Clone(w.hosts),
		Owners: maps.Clone(w.owners), Demands: w.demands, Now: now})
	for _, h := range d.Remove {
		if h.Spec.Claim != nil {
			w.t.Fatalf("host %s is removed while it is claimed", h.Name)
		}
		for i := range w.hosts {
			if w.hosts[i].Name == h.Name && does() {
				w.hosts[i].DeletionTimestamp = &metav1.Time{Time: now}
			}
		}
	}
	for _, a := range d.Assign {
		if slices.ContainsFunc(w.hosts, func(h infrav1.CapstanHost) bool { return h.Name == name(a.Number) }) {
			w.t.Fatalf("number %d is registered twice", a.Number)
		}
		if w.owners[a.Number] = a.Namespace; does() { // the plane may stop after the record and before it creates the host
			w.hosts = append(w.hosts, at(w.t, a.Namespace+"/"+name(a.Number)+" "+a.Zone))
		}
	}
	for _, n := range d.Forget {
		delete(w.owners, n)
	}
	w.hosts = slices.DeleteFunc(w.hosts, func(h infrav1.CapstanHost) bool {
		return !h.DeletionTimestamp.IsZero() && h.Spec.Claim == nil && does()
	})
	return d
}

// settled checks the state once everything has settled.
func (w *life) settled() {
	count, zones, claimed := map[string]int{}, map[string]map[string]int{}, map[string]int{}
	numbers := map[string]bool{}
	extra := 0
	for i := range w.hosts {
		h := &w.hosts[i]
		count[h.Namespace]++
		numbers[h.Name] = true
		if zones[h.Namespace] == nil {
			zones[h.Namespace] = map[string]int{}
		}
		zones[h.Namespace][h.Spec.Zone]++
		if h.Spec.Claim != nil {
			claimed[h.Namespace]++
			if numberOrZero(h) > w.budget {
				extra++
			}
		}
	}
	if len(w.hosts) != w.budget+extra || len(numbers) != len(w.hosts) {
		w.t.Errorf("%d hosts with %d names, want %d and %d", len(w.hosts), len(numbers), w.budget, extra)
	}
	d := Decide(Picture{Budget: w.budget, Zones: []string{"x", "y", "z"}, Hosts: w.hosts, Owners: w.owners,
		Demands: w.demands, Now: now})
	for namespace, share := range d.Shares {
		if count[namespace] != share {
			w.t.Errorf("namespace %s has %d hosts, want %d", namespace, count[namespace], share)
		}
		of := zones[namespace]
		for _, demand := range w.demands {
			if demand.Namespace == namespace && len(demand.Zones) > 0 {
				of = nil // zones need not be balanced where machines wait
			}
		}
		if claimed[namespace] == 0 && max(of["x"], of["y"], of["z"])-min(of["x"], of["y"], of["z"]) > 1 {
			w.t.Errorf("namespace %s has this many hosts in each zone: %v, want them balanced", namespace, of)
		}
	}
}
