// Package pace limits how often the provider does something to hosts: to all together, and to each one (SG-04). What
// has to wait gets a turn, so that those who wait don't come back all at once.
package pace

import (
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// Operation is something that is done to a host. Each has limits of its own.
type Operation string

// Operations.
const (
	Claim   Operation = "claim"
	Deliver Operation = "deliver bootstrap data"
	Release Operation = "release"
	PowerOn Operation = "power on"
	Destroy Operation = "destroy"
)

// Limit is how often an operation may be done.
type Limit struct {
	// PerSecond is how often, in the long run.
	PerSecond float64
	// Burst is how often at once, after a pause.
	Burst int
}

// Defaults of Limits.
var (
	DefaultAll  = Limit{PerSecond: 200, Burst: 1000}
	DefaultEach = Limit{PerSecond: 0.2, Burst: 30}
)

// Limits are those of each operation.
type Limits struct {
	// All is for all hosts together. Default: DefaultAll.
	All Limit
	// Each is for one host. Default: DefaultEach.
	Each Limit
}

// Complete sets defaults, and returns an error for limits that let nothing pass.
func (l *Limits) Complete() error {
	for limit, other := range map[*Limit]Limit{&l.All: DefaultAll, &l.Each: DefaultEach} {
		if limit.PerSecond == 0 {
			limit.PerSecond = other.PerSecond
		}
		if limit.Burst == 0 {
			limit.Burst = other.Burst
		}
		if !(limit.PerSecond >= slowest && limit.PerSecond <= fastest) || limit.Burst < 0 {
			return errors.New("a limit of what is done to hosts can be 0.0001 to 1000000 in a second, and its burst can't " +
				"be negative; 0 means the default")
		}
	}
	return nil
}

// Bounds of Limit.PerSecond: one in three hours, and what nothing reaches.
const (
	slowest = 1e-4
	fastest = 1e6
)

// Pacer knows what was done lately. Nil lets everything pass. A process that starts has forgotten it. It is safe for
// concurrent use.
type Pacer struct {
	limits Limits
	clock  clock.PassiveClock

	mu    sync.Mutex
	all   map[Operation]time.Time
	each  map[turn]time.Time
	due   map[turn]time.Time // turns that are promised
	swept time.Time
}

// turn is of an object, for an operation.
type turn struct {
	operation Operation
	uid       types.UID
}

// New returns a pacer with limits that are complete.
func New(limits Limits, clock clock.PassiveClock) *Pacer {
	return &Pacer{
		limits: limits, clock: clock,
		all: map[Operation]time.Time{}, each: map[turn]time.Time{}, due: map[turn]time.Time{},
	}
}

// Ask returns how long an operation on a host has to wait; 0: not at all, and then it counts as done. Whoever has to
// wait asks again then.
func (p *Pacer) Ask(operation Operation, host types.UID) time.Duration {
	return p.ask(operation, host, true)
}

// AskForAny is Ask for a machine that doesn't know its host yet: only the limit for all hosts together counts.
func (p *Pacer) AskForAny(operation Operation, machine types.UID) time.Duration {
	return p.ask(operation, machine, false)
}

func (p *Pacer) ask(operation Operation, uid types.UID, each bool) time.Duration {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now, t := p.clock.Now(), turn{operation, uid}
	p.sweep(now)
	at, promised := p.due[t]
	if !promised {
		p.all[operation], at = p.limits.All.next(p.all[operation], now)
		if each {
			var own time.Time
			if p.each[t], own = p.limits.Each.next(p.each[t], now); own.After(at) {
				at = own
			}
		}
	}
	if wait := at.Sub(now); wait > 0 {
		p.due[t] = at
		return wait
	}
	delete(p.due, t)
	return 0
}

// next takes a turn: it returns when it is, and when all turns that are taken are used up, which is what to pass the
// next time.
func (l Limit) next(used, now time.Time) (after, at time.Time) {
	every := time.Duration(float64(time.Second) / l.PerSecond)
	if used.Before(now) {
		used = now
	}
	used = used.Add(every)
	return used, used.Add(-time.Duration(l.Burst) * every)
}

// sweepEvery is how often what counts no more is forgotten, and how long a promised turn is kept for somebody who
// doesn't come.
const sweepEvery = time.Minute

func (p *Pacer) sweep(now time.Time) {
	if now.Sub(p.swept) < sweepEvery {
		return
	}
	p.swept = now
	for t, used := range p.each {
		if used.Before(now) {
			delete(p.each, t)
		}
	}
	for t, at := range p.due {
		if now.Sub(at) > sweepEvery {
			delete(p.due, t)
		}
	}
}
