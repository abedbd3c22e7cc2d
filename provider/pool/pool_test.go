package pool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/placement"
)

const ns = "default"

// host returns a free host of zone-a.
func host(name, version string, edits ...func(*infrav1.CapstanHost)) *infrav1.CapstanHost {
	h := &infrav1.CapstanHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID(name), ResourceVersion: version},
		Spec:       infrav1.CapstanHostSpec{Zone: "zone-a"},
		Status: infrav1.CapstanHostStatus{
			Conditions: []metav1.Condition{{Type: infrav1.ReadyCondition, Status: metav1.ConditionTrue}},
		},
	}
	for _, edit := range edits {
		edit(h)
	}
	return h
}

func claimedBy(machine string) func(*infrav1.CapstanHost) {
	return func(h *infrav1.CapstanHost) {
		h.Spec.Claim = &infrav1.HostClaim{
			Machine: machine, MachineUID: "uid-" + machine, Cluster: "demo",
			ProviderID: "capstan://default/" + h.Name + "/uid-" + machine,
		}
	}
}

func in(namespace string) func(*infrav1.CapstanHost) {
	return func(h *infrav1.CapstanHost) { h.Namespace = namespace }
}

func zone(name string) func(*infrav1.CapstanHost) {
	return func(h *infrav1.CapstanHost) { h.Spec.Zone = name }
}

func machine(name string) *infrav1.CapstanMachine {
	meta := metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID("uid-" + name)}
	return &infrav1.CapstanMachine{ObjectMeta: meta}
}

// server is an API server with hosts.
type server struct {
	client.Reader
	hosts  []infrav1.CapstanHost
	err    error
	during func() // called after the hosts are read and before they arrive
	lists  int
}

func (s *server) List(_ context.Context, l client.ObjectList, _ ...client.ListOption) error {
	s.lists++
	if s.during != nil {
		s.during()
	}
	l.(*infrav1.CapstanHostList).Items = s.hosts
	return s.err
}

// trial is a pool and its surroundings in a test.
type trial struct {
	*Pool
	*testing.T
	server *server
}

func newTrial(t *testing.T, hosts ...*infrav1.CapstanHost) *trial {
	s := &server{}
	p := &trial{Pool: New(s, ""), T: t, server: s}
	for _, h := range hosts {
		p.Observe(h)
	}
	return p
}

// pick picks a host for a machine, or returns nil if there is none.
func (p *trial) pick(name string) *Pick {
	p.Helper()
	pick, _, err := p.Pick(machine(name), placement.Request{Cluster: "demo"}, claimedBy(name))
	if err != nil {
		p.Fatal(err)
	}
	return pick
}

// says checks the explanation of the inventory.
func (p *trial) says(want string) {
	p.Helper()
	if _, why := p.Place(machine("who asks"), placement.Request{Cluster: "demo"}); why.String() != want {
		p.Errorf("the pool says %q, want %q", why, want)
	}
}

// holds checks which hosts a machine holds.
func (p *trial) holds(name string, want ...string) {
	p.Helper()
	var got []string
	for _, h := range p.Held(machine(name)) {
		got = append(got, h.Name)
	}
	if !slices.Equal(got, want) {
		p.Errorf("%s holds %v, want %v", name, got, want)
	}
}

func TestAHostIsPickedOnce(t *testing.T) {
	p := newTrial(t, host("a", "1"), host("b", "1", zone("zone-b")), host("c", "1"))
	var got []string
	for range 3 {
		pick := p.pick("m" + fmt.Sprint(len(got)))
		got = append(got, pick.Before().Name)
		if pick.Before().Spec.Claim != nil || pick.After().Spec.Claim == nil {
			t.Error("the claim is in the original, or not in the copy")
		}
	}
	if !slices.Equal(got, []string{"a", "b", "c"}) { // spread over the zones, as if picked one after the other
		t.Errorf("picked %v", got)
	}
	if p.pick("m3") != nil {
		t.Error("a host was picked twice")
	}
	p.says("0 of 3 hosts fit: 3 claimed")
	p.holds("m0") // none, until the claim is written
}

func TestHowAPickEnds(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*trial, *Pick)
		says string
		held []string
	}{
		"claimed, and the watch is behind": {
			end:  func(p *trial, pick *Pick) { p.Claimed(pick, host("a", "2", claimedBy("m"))) },
			says: "0 of 1 host fits: 1 claimed", held: []string{"a"},
		},
		"claimed, and the watch has shown the claim": {
			end: func(p *trial, pick *Pick) {
				p.Observe(host("a", "2", claimedBy("m")))
				p.Claimed(pick, host("a", "2", claimedBy("m")))
			},
			says: "0 of 1 host fits: 1 claimed", held: []string{"a"},
		},
		"claimed, and the watch has shown a newer state": {
			end: func(p *trial, pick *Pick) {
				p.Observe(host("a", "3"))
				p.Claimed(pick, host("a", "2", claimedBy("m")))
			},
			says: "1 of 1 host fits",
		},
		"claimed, and the watch shows an older state": {
			end: func(p *trial, pick *Pick) {
				p.Claimed(pick, host("a", "9", claimedBy("m")))
				p.Observe(host("a", "8"))
			},
			says: "0 of 1 host fits: 1 claimed", held: []string{"a"},
		},
		"claimed, and cleared since": {
			end: func(p *trial, pick *Pick) {
				p.Claimed(pick, host("a", "9", claimedBy("m")))
				p.Observe(host("a", "10"))
			},
			says: "1 of 1 host fits",
		},
		"claimed, and deleted since": {
			end: func(p *trial, pick *Pick) {
				p.Claimed(pick, host("a", "9", claimedBy("m")))
				p.Remove(host("a", "10"), false)
			},
			says: "there are no hosts in this namespace",
		},
		"claimed, and deleted while the watch was broken": {
			end: func(p *trial, pick *Pick) {
				p.Claimed(pick, host("a", "9", claimedBy("m")))
				p.Remove(host("a", "1"), true)
			},
			says: "there are no hosts in this namespace",
		},
		"another machine was faster": {
			end:  func(p *trial, pick *Pick) { p.Changed(pick, host("a", "2", claimedBy("other"))) },
			says: "0 of 1 host fits: 1 claimed",
		},
		"the host has changed, and is free": {
			end: func(p *trial, pick *Pick) { p.Changed(pick, host("a", "2")) }, says: "1 of 1 host fits",
		},
		"the host is gone": {
			end: func(p *trial, pick *Pick) { p.Changed(pick, nil) }, says: "there are no hosts in this namespace",
		},
		"the host is gone, and the watch has shown its deletion": {
			end: func(p *trial, pick *Pick) {
				p.Remove(host("a", "2"), false)
				p.Changed(pick, nil)
			},
			says: "there are no hosts in this namespace",
		},
		"the host is gone, and there is a new one": {
			end: func(p *trial, pick *Pick) {
				p.Observe(host("a", "5"))
				p.Changed(pick, nil)
			},
			says: "1 of 1 host fits",
		},
		"the host is gone, and a new one follows": {
			end: func(p *trial, pick *Pick) {
				p.Changed(pick, nil)
				p.Observe(host("a", "5"))
			},
			says: "1 of 1 host fits",
		},
		"the claim was not written": {end: func(p *trial, pick *Pick) { p.Return(pick) }, says: "1 of 1 host fits"},
		"the outcome is unknown": {end: func(p *trial, pick *Pick) { p.Lose(pick) },
			says: "0 of 1 host fits: 1 claimed"},
		"the outcome is unknown, and the watch shows the claim": {
			end: func(p *trial, pick *Pick) {
				p.Lose(pick)
				p.Observe(host("a", "2", claimedBy("m")))
			},
			says: "0 of 1 host fits: 1 claimed", held: []string{"a"},
		},
		"the outcome is unknown, and the watch shows a newer state without the claim": {
			end: func(p *trial, pick *Pick) {
				p.Lose(pick)
				p.Observe(host("a", "2"))
			},
			says: "1 of 1 host fits",
		},
		"the outcome is unknown, and the watch shows the state before the claim": {
			end: func(p *trial, pick *Pick) {
				p.Lose(pick)
				p.Observe(host("a", "1"))
			},
			says: "0 of 1 host fits: 1 claimed",
		},
		"the outcome is unknown, and the host is gone": {
			end: func(p *trial, pick *Pick) {
				p.Lose(pick)
				p.Remove(host("a", "2"), false)
			},
			says: "there are no hosts in this namespace",
		},
		"the outcome is unknown, and the watch has shown the claim already": {
			end: func(p *trial, pick *Pick) {
				p.Observe(host("a", "2", claimedBy("m")))
				p.Lose(pick)
			},
			says: "0 of 1 host fits: 1 claimed", held: []string{"a"},
		},
		"the outcome is unknown, and the machine is gone": {
			end: func(p *trial, pick *Pick) {
				p.Lose(pick)
				p.Forget(types.NamespacedName{Namespace: ns, Name: "m"})
			},
			says: "1 of 1 host fits",
		},
		"the outcome is unknown, and there is another machine of that name": {
			end: func(p *trial, pick *Pick) {
				p.Lose(pick)
				another := machine("m")
				another.UID = "another"
				if p.Lost(another) != nil {
					p.Error("Lost returns the claim of another machine with the same name")
				}
			},
			says: "1 of 1 host fits",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTrial(t, host("a", "1"))
			c.end(p, p.pick("m"))
			p.says(c.says)
			p.holds("m", c.held...)
		})
	}
}

// TestALostClaimKeepsItsMachine checks that a machine with a lost claim gets no other host: it may already have one.
func TestALostClaimKeepsItsMachine(t *testing.T) {
	p := newTrial(t, host("a", "1"), host("b", "1"))
	pick := p.pick("m")
	p.Lose(pick)
	_, _, err := p.Pick(machine("m"), placement.Request{}, claimedBy("m"))
	if err == nil || !strings.Contains(err.Error(), "host a") {
		t.Errorf("error %v", err)
	}
	if p.Lost(machine("m")) != pick || p.Lost(machine("other")) != nil {
		t.Error("Lost does not return the claim, or returns it for another machine")
	}
	p.Claimed(pick, host("a", "2", claimedBy("m")))
	if p.Lost(machine("m")) != nil {
		t.Error("the claim is still lost after its outcome is known")
	}
	p.holds("m", "a")
}

// TestNamespacesAreApart checks that a claim never crosses namespaces.
func TestNamespacesAreApart(t *testing.T) {
	p := newTrial(t, host("a", "1", in("other")), host("b", "1", in("other"), claimedBy("m")))
	if p.pick("m") != nil {
		t.Error("a machine takes a host of another namespace")
	}
	p.says("there are no hosts in this namespace")
	p.holds("m")
}

func TestOtherFiltersHostsDontCount(t *testing.T) {
	labelled := func(h *infrav1.CapstanHost) { h.Labels = map[string]string{clusterv1.WatchLabel: "ours"} }
	p := newTrial(t)
	p.filter = "ours"
	p.server.hosts = []infrav1.CapstanHost{*host("a", "1"), *host("b", "1", labelled)}
	p.Observe(host("a", "1"))
	p.Observe(host("b", "1", labelled))
	if err := p.Read(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	p.says("1 of 1 host fits")
	pick := p.pick("m")
	p.Changed(pick, host("b", "2")) // somebody removes the label
	p.says("there are no hosts in this namespace")
	p.Observe(host("b", "3", labelled))
	p.says("1 of 1 host fits")
	p.Observe(host("b", "4"))
	p.says("there are no hosts in this namespace")
}

func TestRead(t *testing.T) {
	p := newTrial(t, host("a", "1"), host("b", "3"), host("c", "1"))
	p.server.hosts = []infrav1.CapstanHost{
		*host("a", "2", claimedBy("m")), *host("b", "2", claimedBy("x")), *host("c", "1"),
		*host("d", "2", claimedBy("y")), *host("e", "2"),
	}
	p.server.during = func() {
		p.Observe(host("c", "4", claimedBy("z")))
		p.Remove(host("d", "5", claimedBy("y")), false)
	}
	p.server.err = errors.New("no answer")
	if err := p.Read(t.Context(), ns); err == nil || !strings.Contains(err.Error(), "listing hosts: no answer") {
		t.Errorf("error %v", err)
	}
	p.server.err = nil
	for range 3 {
		if err := p.Read(t.Context(), ns); err != nil {
			t.Fatal(err)
		}
	}
	if p.server.lists != 2 {
		t.Errorf("the hosts were listed %d times, want 2, because the first read failed", p.server.lists)
	}
	p.holds("m", "a") // the watch is behind
	p.holds("x")      // the watch is ahead
	p.holds("y")      // it was removed in the meantime
	p.holds("z", "c")
	p.says("2 of 4 hosts fit: 2 claimed")
}

// TestReadersWaitForOne checks that of many workers that start at once, only one reads.
func TestReadersWaitForOne(t *testing.T) {
	p := newTrial(t)
	begun, goOn := make(chan bool), make(chan bool)
	p.server.during = func() { close(begun); <-goOn }
	var all sync.WaitGroup
	read := func() {
		if err := p.Read(t.Context(), ns); err != nil {
			t.Error(err)
		}
	}
	p.server.hosts = []infrav1.CapstanHost{*host("a", "1")}
	all.Go(read)
	<-begun
	for range 20 {
		all.Go(read)
	}
	given, stop := context.WithCancel(t.Context())
	stop()
	if err := p.Read(given, ns); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller whose context is cancelled gets %v", err)
	}
	close(goOn)
	all.Wait()
	if p.server.lists != 1 {
		t.Errorf("the hosts were listed %d times, want 1", p.server.lists)
	}
}

// TestThePoolLetsGo checks that deleted hosts, machines and namespaces leave nothing behind.
func TestThePoolLetsGo(t *testing.T) {
	p := newTrial(t)
	p.queue = &wakes{}
	for n := range 100 {
		space := fmt.Sprintf("ns-%d", n)
		p.Observe(host("a", "1", in(space)))
		for _, name := range []string{"m1", "m2", "m3"} {
			m := machine(name)
			m.Namespace = space
			pick, _, err := p.Pick(m, placement.Request{Cluster: "demo"}, claimedBy(name))
			if err != nil {
				t.Fatal(err)
			}
			if pick != nil {
				p.Lose(pick)
				p.Forget(keyOf(m))
			}
		}
		p.Observe(host("a", "2", in(space), claimedBy("m1")))
		p.Remove(host("a", "3", in(space), claimedBy("m1")), false)
		for _, name := range []string{"m1", "m2", "m3"} {
			p.Begin(types.NamespacedName{Namespace: space, Name: name})()
		}
	}
	if len(p.shards) != 0 {
		t.Errorf("%d namespaces are left", len(p.shards))
	}
}
