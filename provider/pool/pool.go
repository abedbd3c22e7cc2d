// Package pool keeps the inventory in memory: the hosts as the watch shows them, plus newer states that this process
// knows of.
//
// A claim is a single patch that fails if the host has changed. So two machines can't claim the same host. The pool
// finds a host without checking all of them, and sets it aside so that the workers of this process don't compete for
// it. Three things prevent one machine from claiming a second host. The answer to a patch counts until the watch shows
// it (Claimed). A claim whose answer was lost is looked up before the machine's next attempt (Lost). And before the
// first claim, the hosts are read once from the API server, because the watch may not show the last claims of an
// earlier process yet (Read).
//
// A machine that finds no host waits in the pool until a fitting host is free. Each free host wakes one machine,
// however many wait: the pool adds the machine to the queue of its controller. A pass is one reconcile of a machine.
//
// Namespaces share nothing, not even a lock.
package pool

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/claim"
	"github.com/capstan-dev/capstan/provider/placement"
	"github.com/capstan-dev/capstan/provider/watchfilter"
)

// Pool is the inventory of all namespaces. Create it with New. It is safe for concurrent use.
type Pool struct {
	reader client.Reader
	filter watchfilter.Filter

	mu     sync.Mutex
	queue  queue // nil before Wake
	shards map[string]*shard
}

// New returns an empty Pool for the hosts that match the filter. Handler and Read fill it. Read uses reader, which must
// read from the API server and not from a cache.
func New(reader client.Reader, filter watchfilter.Filter) *Pool {
	return &Pool{reader: reader, filter: filter, shards: map[string]*shard{}}
}

// shard is the inventory of one namespace.
type shard struct {
	pool      *Pool
	namespace string

	mu    sync.Mutex
	gone  bool // the shard is empty, and was removed from the pool
	index *placement.Index
	hosts map[string]*entry
	// claims holds the names of the claimed hosts, by uid and by name of the machine.
	claims map[claimant]map[string]bool
	// lost holds claims whose outcome is unknown, by name of the machine.
	lost map[string]*Pick
	reading
	waiting
}

// claimant identifies a machine in a claim, either by uid or by name.
type claimant struct{ uid, name string }

// entry is what is known about one host.
type entry struct {
	// seen is the host as the watch shows it; nil if the watch does not show the host.
	seen *infrav1.CapstanHost
	// ahead is a newer state of the host that the API server returned and the watch has not shown yet; nil if the watch is
	// not behind.
	ahead *infrav1.CapstanHost
	// missing is true if the host is gone from the API server but the watch still shows it.
	missing bool
	// pick is the claim that is being written, or nil.
	pick *Pick
	// shown is the host as it is in the index; nil if the host is not in the index.
	shown *infrav1.CapstanHost
	// claimed is the state of the host that shard.claims reflects.
	claimed *infrav1.CapstanHost
}

// latest returns the latest known state of the host, without a claim that is being written, or nil if there is no host.
func (e *entry) latest() *infrav1.CapstanHost {
	switch {
	case e.missing:
		return nil
	case e.ahead != nil:
		return e.ahead
	default:
		return e.seen
	}
}

// in returns the shard of a namespace, locked. The caller must call leave.
func (p *Pool) in(namespace string) *shard {
	for {
		p.mu.Lock()
		s := p.shards[namespace]
		if s == nil {
			s = &shard{
				pool: p, namespace: namespace, index: placement.NewIndex(), hosts: map[string]*entry{},
				claims: map[claimant]map[string]bool{}, lost: map[string]*Pick{}, waiting: newWaiting(),
			}
			p.shards[namespace] = s
		}
		p.mu.Unlock()
		s.mu.Lock()
		if !s.gone {
			return s
		}
		s.mu.Unlock()
	}
}

// leave unlocks the shard, and removes it from the pool if it is empty.
func (s *shard) leave() {
	if len(s.hosts)+len(s.lost)+len(s.machines) == 0 && s.call == nil {
		s.gone = true
		s.pool.mu.Lock()
		delete(s.pool.shards, s.namespace)
		s.pool.mu.Unlock()
	}
	s.mu.Unlock()
}

// Held returns copies of the hosts that a machine holds. The one to keep comes first.
func (p *Pool) Held(capstan *infrav1.CapstanMachine) []*infrav1.CapstanHost {
	s := p.in(capstan.Namespace)
	defer s.leave()
	names := map[string]bool{}
	for _, by := range []claimant{{uid: string(capstan.UID)}, {name: capstan.Name}} {
		for name := range s.claims[by] {
			names[name] = true
		}
	}
	var hosts []*infrav1.CapstanHost
	for name := range names {
		hosts = append(hosts, s.hosts[name].latest())
	}
	held := claim.Held(hosts, capstan)
	for i, host := range held {
		held[i] = host.DeepCopy()
	}
	return held
}

// observe adds or updates a host from the watch.
func (s *shard) observe(host *infrav1.CapstanHost) {
	e := s.entry(host.Name)
	if e.seen != nil && e.seen.UID != host.UID && e.ahead != nil && e.ahead.UID == e.seen.UID {
		e.ahead = nil
	}
	if e.ahead != nil && !newer(e.ahead, host) {
		e.ahead = nil
	}
	if e.pick != nil && newer(host, e.pick.before) {
		s.found(e.pick)
	}
	e.seen, e.missing = host, false
	s.show(host.Name, e)
}

// found ends a pick with an unknown outcome once the host is seen in a later state: the claim was written by then, or
// never will be.
func (s *shard) found(pick *Pick) {
	if s.lost[pick.machine.Name] == pick {
		s.release(pick)
	}
}

// remove removes a host that disappeared from the watch. The parameter stale is true if the watch was interrupted and
// host is an older state than the one that was deleted. Everything known about the host is then older than its
// deletion.
func (s *shard) remove(host *infrav1.CapstanHost, stale bool) {
	s.noteRemoved(host, stale)
	e := s.hosts[host.Name]
	if e == nil {
		return
	}
	if e.ahead != nil && (stale || !newer(e.ahead, host)) {
		e.ahead = nil
	}
	if e.pick != nil && (stale || newer(host, e.pick.before)) {
		s.found(e.pick)
	}
	e.seen, e.missing = nil, false
	s.show(host.Name, e)
}

// returned updates a host with the state that the API server returned.
func (s *shard) returned(host *infrav1.CapstanHost) {
	e := s.entry(host.Name)
	if e.pick != nil && newer(host, e.pick.before) {
		s.found(e.pick)
	}
	e.missing = false
	if (e.seen == nil || newer(host, e.seen)) && (e.ahead == nil || newer(host, e.ahead)) {
		e.ahead = host
	}
	s.show(host.Name, e)
}

func (s *shard) entry(name string) *entry {
	e := s.hosts[name]
	if e == nil {
		e = &entry{}
		s.hosts[name] = e
	}
	return e
}

// show updates the index and the claims with what is known about a host, and wakes a waiting machine if something
// changed.
func (s *shard) show(name string, e *entry) {
	latest := e.latest()
	s.claim(name, e.claimed, false)
	s.claim(name, latest, true)
	e.claimed = latest

	before, now := e.shown, latest
	if e.pick != nil {
		now = e.pick.host
	}
	e.shown = now
	changed := false
	switch {
	case now != nil:
		changed = s.index.Put(now)
	case before != nil:
		changed = s.index.Delete(name)
	}
	if now == nil && e.pick == nil {
		delete(s.hosts, name)
	}
	if changed {
		s.changed(now)
	}
}

// claim adds the host to s.claims, or removes it if add is false.
func (s *shard) claim(name string, host *infrav1.CapstanHost, add bool) {
	if host == nil || host.Spec.Claim == nil {
		return
	}
	for _, by := range []claimant{{uid: host.Spec.Claim.MachineUID}, {name: host.Spec.Claim.Machine}} {
		switch {
		case add && s.claims[by] == nil:
			s.claims[by] = map[string]bool{name: true}
		case add:
			s.claims[by][name] = true
		default:
			if delete(s.claims[by], name); len(s.claims[by]) == 0 {
				delete(s.claims, by)
			}
		}
	}
}

// newer reports whether the first state of a host is later than the second. It returns false if the resource versions
// can't be compared.
func newer(a, b *infrav1.CapstanHost) bool {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err == nil && order > 0
}

// keyOf returns the namespace and name of a machine.
func keyOf(capstan *infrav1.CapstanMachine) types.NamespacedName {
	return client.ObjectKeyFromObject(capstan)
}
