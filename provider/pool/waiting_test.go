package pool

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/placement"
)

// wakes records which machines are woken.
type wakes struct {
	now   []string
	later []string
}

func (w *wakes) Add(r reconcile.Request) { w.now = append(w.now, r.Name) }

func (w *wakes) AddAfter(r reconcile.Request, after time.Duration) {
	if after != refreshPause {
		panic(after)
	}
	w.later = append(w.later, r.Name)
}

// take returns the machines that were woken since the last call.
func (w *wakes) take() string {
	got := strings.Join(w.now, " ")
	w.now = nil
	return got
}

// waiters returns a pool in which these machines wait for a host.
func waiters(t *testing.T, requests map[string]placement.Request, names ...string) (*trial, *wakes) {
	p, w := newTrial(t), &wakes{}
	p.queue = w
	for _, name := range names {
		p.asks(name, requests[name])
	}
	return p, w
}

// asks runs a pass over a machine that takes a host if there is one.
func (p *trial) asks(name string, request placement.Request) *Pick {
	p.Helper()
	end := p.Begin(types.NamespacedName{Namespace: ns, Name: name})
	defer end()
	pick, _, err := p.Pick(machine(name), request, claimedBy(name))
	if err != nil {
		p.Fatal(err)
	}
	if pick != nil {
		after := pick.After()
		after.ResourceVersion += "0"
		p.Claimed(pick, after)
	}
	return pick
}

// ends runs a pass over a machine that ends before it asks for a host.
func (p *trial) ends(name string) { p.Begin(types.NamespacedName{Namespace: ns, Name: name})() }

func (p *trial) woken(w *wakes, want string) {
	p.Helper()
	if got := w.take(); got != want {
		p.Errorf("woken: %q, want %q", got, want)
	}
}

// alike makes all machines ask for the same.
var alike = map[string]placement.Request{}

func TestAFreeHostWakesOneMachine(t *testing.T) {
	p, w := waiters(t, alike, "m1", "m2", "m3")
	p.Observe(host("a", "1"))
	p.woken(w, "m1")
	p.Observe(host("b", "1"))
	p.woken(w, "m2")
	p.Observe(host("b", "2")) // a change that doesn't matter
	p.woken(w, "")
	p.asks("m1", alike[""])
	p.asks("m2", alike[""])
	p.woken(w, "")
	p.holds("m1", "a")
	p.holds("m2", "b")
	p.Observe(host("c", "1", claimedBy("x")))
	p.woken(w, "")
	p.Observe(host("c", "2"))
	p.woken(w, "m3")
}

// TestTenThousandMachinesWait checks that each free host wakes exactly one machine.
func TestTenThousandMachinesWait(t *testing.T) {
	const crowd = 10_000
	var names []string
	for n := range crowd {
		names = append(names, fmt.Sprintf("m%05d", n))
	}
	p, w := waiters(t, alike, names...)
	for n := range 100 {
		p.Observe(host(fmt.Sprintf("h%d", n), "1"))
		p.woken(w, names[n])
		p.asks(names[n], alike[""])
	}
	if n := p.shards[ns].refreshing; n > refreshesAtOnce {
		t.Errorf("%d machines renew their explanation at once", n)
	}
}

func TestWhoIsWoken(t *testing.T) {
	inB := placement.Request{Zone: "zone-b"}
	ssd := placement.Request{Selector: labels.SelectorFromSet(labels.Set{"disk": "ssd"})}
	big := placement.Request{Hardware: infrav1.HostRequirements{MinProcessors: 8}}
	requests := map[string]placement.Request{"b1": inB, "b2": inB, "s1": ssd, "h1": big}
	hasSSD := func(h *infrav1.CapstanHost) { h.Labels = map[string]string{"disk": "ssd"} }
	p, w := waiters(t, requests, "b1", "s1", "h1", "m1", "b2")
	p.Observe(host("a", "1"))
	p.woken(w, "m1") // the first machine that fits
	p.Observe(host("b", "1", hasSSD))
	p.woken(w, "s1")
	p.Observe(host("c", "1", zone("zone-b"), hasSSD))
	p.woken(w, "b1") // it came first
	p.Observe(host("d", "1"))
	p.woken(w, "")
	p.Observe(host("d", "2", hasSSD)) // it doesn't fit b2 any better
	p.woken(w, "")
	p.Observe(host("d", "3", func(h *infrav1.CapstanHost) { h.Status.Agent = &infrav1.AgentReport{Processors: 8} }))
	p.woken(w, "h1")
}

// TestAWakeIsPassedOn covers a woken machine that takes no host, or a different one.
func TestAWakeIsPassedOn(t *testing.T) {
	inB := placement.Request{Zone: "zone-b"}
	for name, c := range map[string]struct {
		pass func(*trial, *wakes)
	}{
		"the machine is paused or deleted": {func(p *trial, w *wakes) {
			p.ends("m1")
			p.woken(w, "m2")
			p.ends("m2")
			p.woken(w, "m3")
		}},
		"the machine has another request now": {func(p *trial, w *wakes) {
			p.asks("m1", inB)
			p.woken(w, "m2")
		}},
		"another machine was faster, and the woken one keeps its place": {func(p *trial, w *wakes) {
			p.asks("new", alike[""])
			p.asks("m1", alike[""])
			p.woken(w, "")
			p.Observe(host("z", "1"))
			p.woken(w, "m1")
		}},
		"the claim is refused": {func(p *trial, w *wakes) {
			end := p.Begin(types.NamespacedName{Namespace: ns, Name: "m1"})
			p.Return(p.pick("m1"))
			p.woken(w, "m2")
			end()
		}},
		"the host has changed, and is free": {func(p *trial, w *wakes) {
			end := p.Begin(types.NamespacedName{Namespace: ns, Name: "m1"})
			p.Changed(p.pick("m1"), host("a", "7"))
			p.woken(w, "m2")
			end()
		}},
		"the machine takes a host that no machine was woken for": {func(p *trial, w *wakes) {
			p.ends("m2") // m2 and m3 no longer wait; b does
			p.ends("m3")
			p.asks("b", inB)
			p.Observe(host("0", "1")) // it comes first by name; nobody else could take it
			p.woken(w, "")
			p.Observe(host("a", "2", zone("zone-a"))) // still free
			p.asks("m1", alike[""])
			p.asks("m4", placement.Request{Zone: "zone-a"})
			p.holds("m4", "a")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p, w := waiters(t, alike, "m1", "m2", "m3")
			p.Observe(host("a", "1"))
			p.woken(w, "m1")
			c.pass(p, w)
		})
	}
}

// TestAMachineThatIsWokenDuringItsPassIsNotForgotten covers a pass that looked for a host before one was free.
func TestAMachineThatIsWokenDuringItsPassIsNotForgotten(t *testing.T) {
	p, w := waiters(t, alike, "m1", "m2")
	end := p.Begin(types.NamespacedName{Namespace: ns, Name: "m1"})
	if fits, _ := p.Place(machine("m1"), alike["m1"]); fits {
		t.Fatal("a host fits before there is one")
	}
	p.Observe(host("a", "1"))
	p.woken(w, "m1")
	end()
	p.ends("m1") // the pass that it was woken for
	p.woken(w, "m2")
}

// TestExplanationsAreRenewed checks that explanations are renewed a few at a time, the oldest first, and only after a
// change.
func TestExplanationsAreRenewed(t *testing.T) {
	var names []string
	for n := range 3 * refreshesAtOnce {
		names = append(names, fmt.Sprintf("m%02d", n))
	}
	p, w := waiters(t, alike, names...)
	if len(w.later) != 0 {
		t.Fatalf("nothing has changed, and %v look again", w.later)
	}
	p.Observe(host("a", "1", claimedBy("x")))
	p.Observe(host("b", "1", claimedBy("x")))
	if !slices.Equal(w.later, names[:refreshesAtOnce]) {
		t.Fatalf("%v look again", w.later)
	}
	for i := 0; i < len(w.later) && i < 1000; i++ {
		p.asks(w.later[i], alike[""])
	}
	if !slices.Equal(w.later, names) {
		t.Errorf("in the end %v have looked again", w.later)
	}
	if len(w.now) != 0 {
		t.Errorf("woken for a host: %v", w.now)
	}
	p.Observe(host("c", "1", claimedBy("x")))
	if len(w.later) != len(names)+refreshesAtOnce {
		t.Errorf("the next change lets %d look again", len(w.later)-len(names))
	}
}
