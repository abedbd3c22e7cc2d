package pool

import (
	"container/list"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/placement"
)

// Waiting machines must also show why they have no host. After a change of the inventory, they look again,
// refreshesAtOnce at a time, each after refreshPause.
const (
	refreshesAtOnce = 16
	refreshPause    = time.Second
)

// waiting holds the machines of a shard that found no host, in order of arrival.
//
// As long as a free host fits a waiting machine, at least one woken machine has not finished its pass. When a woken
// machine's pass ends, whether it took a host or not, the pool checks the waiting machines again. So a host is not
// forgotten if the woken machine does not take it, and a host wakes only one machine.
type waiting struct {
	machines map[string]*waiter
	// lines groups the waiters with the same request; the keys are from idOf.
	lines map[string]*line
	came  uint64
	// looks holds the waiters, the one with the oldest explanation first.
	looks *list.List
	// version counts the changes of the inventory.
	version uint64
	// woken is how many waiters were woken for a host and have not finished their pass yet.
	woken int
	// refreshing is how many waiters are looking again to update their explanation.
	refreshing int
}

// line holds the waiters with the same request, in order of arrival.
type line struct {
	id      string
	request placement.Request
	waiters *list.List
}

type waiter struct {
	machine string
	came    uint64 // its position among all waiters
	line    *line
	place   *list.Element // its element in line.waiters
	look    *list.Element // its element in looks
	looked  uint64        // the version that its explanation is based on
	woken   bool          // woken for a host; the machine is in the queue
	refresh bool          // woken for a new explanation; the machine is in the queue
	busy    bool          // its pass is running
}

func newWaiting() waiting {
	return waiting{machines: map[string]*waiter{}, lines: map[string]*line{}, looks: list.New()}
}

// Begin reports that a pass over a machine begins. The caller must call the returned function when the pass has ended.
// A waiting machine keeps its place if it still waits then.
func (p *Pool) Begin(machine types.NamespacedName) (end func()) {
	s := p.in(machine.Namespace)
	defer s.leave()
	w := s.machines[machine.Name]
	if w == nil {
		return func() {}
	}
	woken, refreshed := w.woken, w.refresh
	w.busy, w.woken, w.refresh = true, false, false
	return func() {
		s := p.in(machine.Namespace)
		defer s.leave()
		if w.busy {
			s.unwait(w)
		}
		if refreshed {
			s.refreshing--
		}
		if woken {
			s.woken--
			s.wakeAll()
		}
		s.refreshOne()
	}
}

// wait makes a machine wait. Call it right after Index.Place found no host for the request.
func (s *shard) wait(machine string, request placement.Request) {
	id := idOf(request)
	w := s.machines[machine]
	woken := false
	if w != nil && w.line.id != id {
		woken = w.woken
		s.unwait(w)
		w = nil
	}
	if w == nil {
		l := s.lines[id]
		if l == nil {
			l = &line{id: id, request: request, waiters: list.New()}
			s.lines[id] = l
		}
		s.came++
		w = &waiter{machine: machine, came: s.came, line: l, woken: woken}
		w.place, w.look = l.waiters.PushBack(w), s.looks.PushBack(w)
		s.machines[machine] = w
	}
	w.busy, w.looked = false, s.version
	s.looks.MoveToBack(w.look)
}

// unwait removes a machine from those that wait.
func (s *shard) unwait(w *waiter) {
	if s.machines[w.machine] != w {
		return
	}
	delete(s.machines, w.machine)
	s.looks.Remove(w.look)
	if w.line.waiters.Remove(w.place); w.line.waiters.Len() == 0 {
		delete(s.lines, w.line.id)
	}
	if w.refresh {
		s.refreshing--
	}
}

// changed handles a change of the inventory: it wakes one machine that fits the changed host, if that host is free, and
// lets waiting machines update their explanations.
func (s *shard) changed(host *infrav1.CapstanHost) {
	s.version++
	if len(s.machines) == 0 {
		return
	}
	if host != nil && placement.Free(host) {
		s.wakeFirst(func(r placement.Request) bool { return placement.Fits(host, r) })
	}
	s.refreshOne()
}

// wakeAll wakes a machine of each line if the hosts that fit outnumber the machines already woken.
func (s *shard) wakeAll() {
	for _, l := range s.lines {
		if w := l.first(); w != nil {
			if _, why := s.index.Place(l.request); why.Fit > s.woken {
				s.wake(w)
			}
		}
	}
}

// wakeFirst wakes the machine that came first among those whose request fits.
func (s *shard) wakeFirst(fits func(placement.Request) bool) {
	var first *waiter
	for _, l := range s.lines {
		if w := l.first(); w != nil && (first == nil || w.came < first.came) && fits(l.request) {
			first = w
		}
	}
	if first != nil {
		s.wake(first)
	}
}

func (s *shard) wake(w *waiter) {
	if q := s.pool.wakes(); q != nil {
		w.woken = true
		s.woken++
		q.Add(s.requestFor(w))
	}
}

// refreshOne makes the waiters with the oldest explanations look again if the inventory has changed since.
func (s *shard) refreshOne() {
	q := s.pool.wakes()
	for e := s.looks.Front(); q != nil && e != nil && s.refreshing < refreshesAtOnce; e = e.Next() {
		w := e.Value.(*waiter)
		if w.looked == s.version {
			return
		}
		if w.woken || w.refresh || w.busy {
			continue
		}
		w.refresh = true
		s.refreshing++
		q.AddAfter(s.requestFor(w), refreshPause)
	}
}

func (s *shard) requestFor(w *waiter) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: s.namespace, Name: w.machine}}
}

// first returns the first waiter that is neither woken nor busy, or nil.
func (l *line) first() *waiter {
	for e := l.waiters.Front(); e != nil; e = e.Next() {
		if w := e.Value.(*waiter); !w.woken && !w.busy {
			return w
		}
	}
	return nil
}

// idOf returns a key that is the same for equal requests.
func idOf(r placement.Request) string {
	selector := ""
	if r.Selector != nil {
		selector = r.Selector.String()
	}
	return fmt.Sprintf("%q %t %q %q %q %+v", r.Cluster, r.ControlPlane, r.Zone, r.Version, selector, r.Hardware)
}
