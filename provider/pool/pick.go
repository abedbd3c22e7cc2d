package pool

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/placement"
)

// Pick is a host that is set aside for a machine while the claim is being written. The caller must report the outcome
// with Claimed, Changed, Return or Lose.
type Pick struct {
	machine types.NamespacedName
	uid     types.UID
	before  *infrav1.CapstanHost
	host    *infrav1.CapstanHost
}

// Before returns the host as it was when it was picked. The caller must not change it.
func (p *Pick) Before() *infrav1.CapstanHost { return p.before }

// After returns a copy of the host with the machine's claim.
func (p *Pick) After() *infrav1.CapstanHost { return p.host.DeepCopy() }

// Pick sets a host aside for a machine. If no host fits, it returns nil and the explanation; the machine then waits,
// and is woken when a host fits. edit sets the claim on a copy of the host; edit must not use the pool. Pick returns an
// error while the outcome of an earlier claim of the machine is unknown.
func (p *Pool) Pick(
	capstan *infrav1.CapstanMachine, request placement.Request, edit func(*infrav1.CapstanHost),
) (*Pick, placement.Explanation, error) {
	s := p.in(capstan.Namespace)
	defer s.leave()
	if lost := s.lost[capstan.Name]; lost != nil {
		return nil, placement.Explanation{}, fmt.Errorf(
			"the outcome of the claim of host %s is not known yet: the claim is retried", lost.before.Name)
	}
	host, why := s.place(capstan.Name, request)
	if host == nil {
		return nil, why, nil
	}
	e := s.hosts[host.Name]
	e.pick = &Pick{machine: keyOf(capstan), uid: capstan.UID, before: host, host: host.DeepCopy()}
	edit(e.pick.host)
	s.show(host.Name, e)
	return e.pick, why, nil
}

// Place reports whether a host fits a machine now, with the explanation. If none fits, the machine waits, as it does if
// Pick finds no host.
func (p *Pool) Place(capstan *infrav1.CapstanMachine, request placement.Request) (bool, placement.Explanation) {
	s := p.in(capstan.Namespace)
	defer s.leave()
	host, why := s.place(capstan.Name, request)
	return host != nil, why
}

// place finds a host or makes the machine wait.
func (s *shard) place(machine string, request placement.Request) (*infrav1.CapstanHost, placement.Explanation) {
	host, why := s.index.Place(request)
	if host == nil {
		s.wait(machine, request)
	}
	return host, why
}

// Claimed reports that the claim was written. The argument is the host that the API server returned.
func (p *Pool) Claimed(pick *Pick, answer *infrav1.CapstanHost) { p.settle(pick, answer.DeepCopy()) }

// Changed reports that the host changed after it was picked. The parameter now is the host as it is on the API server,
// or nil if the host no longer exists.
func (p *Pool) Changed(pick *Pick, now *infrav1.CapstanHost) {
	if now != nil && p.filter.Matches(now) {
		p.settle(pick, now.DeepCopy())
		return
	}
	s := p.in(pick.machine.Namespace)
	defer s.leave()
	e := s.release(pick)
	// The host is missing, unless the watch has shown a newer state since it was picked.
	if e.ahead = nil; e.seen != nil && !newer(e.seen, pick.before) {
		e.missing = true
	}
	s.show(pick.before.Name, e)
}

// Return reports that the claim was not written and never will be.
func (p *Pool) Return(pick *Pick) {
	s := p.in(pick.machine.Namespace)
	defer s.leave()
	s.show(pick.before.Name, s.release(pick))
}

// Lose reports that nobody knows whether the claim was written. The host stays set aside, and the machine gets no other
// one, until Claimed, Changed, Return or Forget settles the outcome or the watch shows a newer state of the host.
func (p *Pool) Lose(pick *Pick) {
	s := p.in(pick.machine.Namespace)
	defer s.leave()
	e := s.entry(pick.before.Name)
	s.lost[pick.machine.Name] = pick
	if now := e.latest(); now == nil || newer(now, pick.before) {
		s.show(pick.before.Name, s.release(pick))
	}
}

// Lost returns the machine's claim if its outcome is unknown, or nil.
func (p *Pool) Lost(capstan *infrav1.CapstanMachine) *Pick {
	s := p.in(capstan.Namespace)
	defer s.leave()
	lost := s.lost[capstan.Name]
	if lost != nil && lost.uid != capstan.UID {
		s.show(lost.before.Name, s.release(lost))
		return nil
	}
	return lost
}

// Forget reports that a machine is gone. From then on, only the watch counts for its claims.
func (p *Pool) Forget(machine types.NamespacedName) {
	s := p.in(machine.Namespace)
	defer s.leave()
	if lost := s.lost[machine.Name]; lost != nil {
		s.show(lost.before.Name, s.release(lost))
	}
}

// settle ends a pick with the state of the host on the API server.
func (p *Pool) settle(pick *Pick, host *infrav1.CapstanHost) {
	s := p.in(pick.machine.Namespace)
	defer s.leave()
	s.release(pick)
	s.returned(host)
}

// release ends a pick, so that its host is no longer set aside.
func (s *shard) release(pick *Pick) *entry {
	if s.lost[pick.machine.Name] == pick {
		delete(s.lost, pick.machine.Name)
	}
	e := s.entry(pick.before.Name)
	if e.pick == pick {
		e.pick = nil
	}
	return e
}
