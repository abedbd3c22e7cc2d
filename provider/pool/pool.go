// Package pool is the inventory in memory: the hosts as the watch shows them, with what this process knows better.
//
// A claim is one patch of one host that fails if the host has changed; that keeps two machines off one host. The pool
// finds the host for it without a look at the others, and sets it aside, so that the workers of this process don't run
// for the same one. That one machine takes no second host rests on three things: what a patch answered counts until the
// watch shows it (Claimed); a patch whose answer was lost is looked up before this machine's next try (Lost); and the
// hosts are read once from the API server before the first claim, for what an earlier process did last (Read).
//
// A machine that finds no host waits in the pool, and is woken when one is free that fits it: one machine for each
// host, however many wait.
//
// Namespaces don't share anything, not even a lock.
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

// Pool is the inventory of all namespaces. Make it with New. It is safe for concurrent use.
type Pool struct {
	reader client.Reader
	filter watchfilter.Filter

	mu     sync.Mutex
	queue  queue // nil: nobody can be woken yet
	shards map[string]*shard
}

// New returns a pool of the hosts that pass the filter. It knows none until it is told by Handler, or by Read, which
// reads them with reader, from the API server.
func New(reader client.Reader, filter watchfilter.Filter) *Pool {
	return &Pool{reader: reader, filter: filter, shards: map[string]*shard{}}
}

// shard is the inventory of one namespace.
type shard struct {
	pool      *Pool
	namespace string

	mu    sync.Mutex
	gone  bool // nothing is in it, and it is not the pool's any more
	index *placement.Index
	hosts map[string]*entry
	// claims are the hosts that are claimed, by uid and by name of the machine.
	claims map[claimant]map[string]bool
	// lost are claims whose answer was lost, by name of the machine.
	lost map[string]*Pick
	reading
	waiting
}

// claimant is a machine as a claim names it, by uid or by name.
type claimant struct{ uid, name string }

// entry is what is known about one host.
type entry struct {
	// seen is the host as the watch shows it; nil: it doesn't.
	seen *infrav1.CapstanHost
	// ahead is the host as the API server returned it, which the watch is still to show; nil: the watch is not behind.
	ahead *infrav1.CapstanHost
	// missing is true if the API server doesn't have the host that the watch shows.
	missing bool
	// pick is the claim that is being written; nil: none.
	pick *Pick
	// shown is the host as the index has it; nil: the index doesn't.
	shown *infrav1.CapstanHost
	// claimed is the latest host as claims has it.
	claimed *infrav1.CapstanHost
}

// latest returns the host without the claim that is being written; nil: there is none.
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

// in returns the locked shard of a namespace. The caller must leave it.
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

// leave unlocks the shard, and lets the pool forget it if nothing is in it.
func (s *shard) leave() {
	if len(s.hosts)+len(s.lost)+len(s.machines) == 0 && s.call == nil {
		s.gone = true
		s.pool.mu.Lock()
		delete(s.pool.shards, s.namespace)
		s.pool.mu.Unlock()
	}
	s.mu.Unlock()
}

// Held returns copies of the hosts that a machine holds, the one to keep first.
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

// observe takes note of a host that the watch shows.
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

// found ends a pick whose answer was lost, once the host is seen in a later state: the claim is written by now or
// never.
func (s *shard) found(pick *Pick) {
	if s.lost[pick.machine.Name] == pick {
		s.release(pick)
	}
}

// remove takes note of a host that the watch doesn't show any more. stale is true if the host is an older state than
// the one that the API server deleted: then the watch was broken, and whatever is known of the host is older than its
// end.
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

// returned takes note of a host as the API server returned it.
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

// show brings the index, the claims and those who wait in line with what is known about a host.
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

// claim notes whose claim a host has, or forgets it.
func (s *shard) claim(name string, host *infrav1.CapstanHost, has bool) {
	if host == nil || host.Spec.Claim == nil {
		return
	}
	for _, by := range []claimant{{uid: host.Spec.Claim.MachineUID}, {name: host.Spec.Claim.Machine}} {
		switch {
		case has && s.claims[by] == nil:
			s.claims[by] = map[string]bool{name: true}
		case has:
			s.claims[by][name] = true
		default:
			if delete(s.claims[by], name); len(s.claims[by]) == 0 {
				delete(s.claims, by)
			}
		}
	}
}

// newer reports whether a host is in a later state than another one. Where that can't be seen, it is not.
func newer(a, b *infrav1.CapstanHost) bool {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err == nil && order > 0
}

// keyOf names a machine.
func keyOf(capstan *infrav1.CapstanMachine) types.NamespacedName {
	return client.ObjectKeyFromObject(capstan)
}
