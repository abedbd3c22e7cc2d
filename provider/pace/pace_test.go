package pace

import (
	"fmt"
	"math"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

func host(n int) types.UID { return types.UID(fmt.Sprintf("host-%d", n)) }

func newPacer(all, each Limit) (*Pacer, *clocktesting.FakePassiveClock) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	return New(Limits{All: all, Each: each}, clock), clock
}

// The limit for all hosts applies to a burst over many hosts.
func TestAll(t *testing.T) {
	p, clock := newPacer(Limit{PerSecond: 2, Burst: 5}, Limit{PerSecond: 1, Burst: 1})
	done := map[int]bool{}
	for second := range 10 {
		for n := range 20 {
			if !done[n] && p.Ask(Release, host(n)) == 0 {
				done[n] = true
			}
		}
		if want := min(5+2*second, 20); len(done) != want {
			t.Errorf("after %d s %d hosts are released, want %d", second, len(done), want)
		}
		t.Attr("rule", "SG-04")
		clock.SetTime(clock.Now().Add(time.Second))
	}
}

// The limit for one host applies to repeated operations on that host, which don't delay other hosts.
func TestEach(t *testing.T) {
	p, clock := newPacer(Limit{PerSecond: 1000, Burst: 1000}, Limit{PerSecond: 0.5, Burst: 3})
	n := 0
	for range 600 { // a minute
		if p.Ask(PowerOn, host(1)) == 0 {
			n++
		}
		if wait := p.Ask(PowerOn, types.UID(fmt.Sprint(clock.Now().UnixNano()))); wait != 0 {
			t.Fatalf("another host waits for %s", wait)
		}
		clock.SetTime(clock.Now().Add(100 * time.Millisecond))
	}
	if n != 3+29 {
		t.Errorf("a host was powered on %d times in a minute, want 3, and one more every 2 s", n)
	}
	t.Attr("rule", "SG-04")
	if wait := p.Ask(Deliver, host(1)); wait != 0 {
		t.Errorf("another operation on the host waits for %s", wait)
	}
}

// Waiting callers get turns one after the other, and keep them if they ask too early.
func TestTurns(t *testing.T) {
	p, clock := newPacer(Limit{PerSecond: 1, Burst: 1}, Limit{PerSecond: 1, Burst: 1})
	for n := range 4 {
		for range 3 {
			if wait, want := p.AskForAny(Claim, host(n)), time.Duration(n)*time.Second; wait != want {
				t.Errorf("machine %d waits for %s, want %s", n, wait, want)
			}
			if n == 0 {
				break
			}
		}
	}
	clock.SetTime(clock.Now().Add(2 * time.Second))
	for n, want := range []time.Duration{2 * time.Second, 0, 0, time.Second} {
		if wait := p.AskForAny(Claim, host(n)); n > 0 && wait != want {
			t.Errorf("2 s later machine %d waits for %s, want %s", n, wait, want)
		}
	}
}

// Nothing is kept about hosts without recent operations.
func TestNothingIsKeptForEver(t *testing.T) {
	p, clock := newPacer(Limit{PerSecond: 10, Burst: 10}, Limit{PerSecond: 1, Burst: 1})
	for n := range 100 {
		p.Ask(Claim, host(n))
	}
	clock.SetTime(clock.Now().Add(3 * time.Minute))
	p.Ask(Claim, host(1000))
	if len(p.each) != 1 || len(p.due) != 0 {
		t.Errorf("%d hosts and %d turns are kept, want one host", len(p.each), len(p.due))
	}
}

func TestNilLetsEverythingPass(t *testing.T) {
	var p *Pacer
	if p.Ask(Claim, "x") != 0 || p.AskForAny(Claim, "x") != 0 {
		t.Error("a nil Pacer lets an operation wait")
	}
}

func TestComplete(t *testing.T) {
	for name, c := range map[string]struct {
		limits Limits
		fails  bool
	}{
		"no limits are given":         {},
		"all limits are given":        {limits: Limits{All: Limit{1, 1}, Each: Limit{1, 1}}},
		"a negative rate":             {limits: Limits{All: Limit{PerSecond: -1}}, fails: true},
		"a rate of almost 0":          {limits: Limits{Each: Limit{PerSecond: 1e-9}}, fails: true},
		"a rate that is not a number": {limits: Limits{Each: Limit{PerSecond: math.NaN()}}, fails: true},
		"an infinite rate":            {limits: Limits{Each: Limit{PerSecond: math.Inf(1)}}, fails: true},
		"a negative burst":            {limits: Limits{Each: Limit{Burst: -1}}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.limits.Complete()
			if (err != nil) != c.fails {
				t.Fatalf("the error is %v", err)
			}
			if all, each := c.limits.All, c.limits.Each; err == nil &&
				(all.PerSecond == 0 || all.Burst == 0 || each.PerSecond == 0 || each.Burst == 0) {
				t.Errorf("the limits are %+v", c.limits)
			}
		})
	}
}
