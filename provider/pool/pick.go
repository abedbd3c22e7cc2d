package pool

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/placement"
)

// Pick is a host that is set aside for a machine while the claim is written. Whoever picked must say how that ended:
// Claimed, Changed, Return or Lose.
type Pick struct {
	machine types.NamespacedName
	uid     types.UID
	before  *infrav1.CapstanHost
	host    *infrav1.CapstanHost
}

// Before returns the host that was picked, as it was. It must not be changed.
func (p *Pick) Before() *infrav1.CapstanHost { return p.before }

// After returns a copy of the host with the claim of the machine.
func (p *Pick) After() *infrav1.CapstanHost { return p.host.DeepCopy() }

// Pick sets a host aside for a machine, or returns none and why; then the machine waits, and is woken when there is
// one. edit writes the claim into a copy of the host. It must not use the pool.
func (p *Pool) Pick(
	capstan *infrav1.CapstanMachine, request placement.Request, edit func(*infrav1.CapstanHost),
) (*Pick, placement.Explanation, error) {
	s := p.in(capstan.Namespace)
	defer s.leave()
	if lost := s.lost[capstan.Name]; lost != nil {
		return nil, placement.Explanation{}, fmt.Errorf(
			"it is not known yet how the claim of host %s ended: another try follows", lost.before.Name)
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

// Place says whether there is a host for a machine now, and why not. A machine without one waits, as after Pick.
func (p *Pool) Place(capstan *infrav1.CapstanMachine, request placement.Request) (bool, placement.Explanation) {
	s := p.in(capstan.Namespace)
	defer s.leave()
	host, why := s.place(capstan.Name, request)
	return host != nil, why
}

// place finds a host, or lets the machine wait.
func (s *shard) place(machine string, request placement.Request) (*infrav1.CapstanHost, placement.Explanation) {
	host, why := s.index.Place(request)
	if host == nil {
		s.wait(machine, request)
	}
	return host, why
}

// Claimed says that the claim was written, and what the API server answered.
func (p *Pool) Claimed(pick *Pick, answer *infrav1.CapstanHost) { p.settle(pick, answer.DeepCopy()) }

// Changed says that the host was not the one that was picked any more, and what it is on the API server; nil: nothing.
func (p *Pool) Changed(pick *Pick, now *infrav1.CapstanHost) {
	if now != nil && p.filter.Matches(now) {
		p.settle(pick, now.DeepCopy())
		return
	}
	s := p.in(pick.machine.Namespace)
	defer s.leave()
	e := s.release(pick)
	// What the watch has shown since is not what the API server didn't have.
	if e.ahead = nil; e.seen != nil && !newer(e.seen, pick.before) {
		e.missing = true
	}
	s.show(pick.before.Name, e)
}

// Return says that the claim was not written, and never will be.
func (p *Pool) Return(pick *Pick) {
	s := p.in(pick.machine.Namespace)
	defer s.leave()
	s.show(pick.before.Name, s.release(pick))
}

// Lose says that it is not known whether the claim was written. The host stays aside, and the machine gets no other
// one, until one of Claimed, Changed, Return or Forget settles it, or the watch shows the host after it.
func (p *Pool) Lose(pick *Pick) {
	s := p.in(pick.machine.Namespace)
	defer s.leave()
	e := s.entry(pick.before.Name)
	s.lost[pick.machine.Name] = pick
	if now := e.latest(); now == nil || newer(now, pick.before) {
		s.show(pick.before.Name, s.release(pick))
	}
}

// Lost returns the claim of a machine of which it is not known whether it was written; nil: there is none.
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

// Forget says that a machine is gone: what the watch shows of its claims is all that counts.
func (p *Pool) Forget(machine types.NamespacedName) {
	s := p.in(machine.Namespace)
	defer s.leave()
	if lost := s.lost[machine.Name]; lost != nil {
		s.show(lost.before.Name, s.release(lost))
	}
}

// settle ends a pick with the host as the API server has it.
func (p *Pool) settle(pick *Pick, host *infrav1.CapstanHost) {
	s := p.in(pick.machine.Namespace)
	defer s.leave()
	s.release(pick)
	s.returned(host)
}

// release lets go of the host of a pick.
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
