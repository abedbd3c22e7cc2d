// Package pace limits how often the provider changes hosts: all hosts together, and each host on its own (contract rule
// SG-04). Callers that must wait get turns, so that they don't all come back at once.
package pace

import (
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// Operation is something that the provider does to a host. Each operation has its own limits.
type Operation string

// Operations.
const (
	Claim   Operation = "claim"
	Deliver Operation = "deliver bootstrap data"
	Release Operation = "release"
	PowerOn Operation = "power on"
	Destroy Operation = "destroy"
)

// Limit is how often an operation may happen.
type Limit struct {
	// PerSecond is the sustained rate.
	PerSecond float64
	// Burst is how many operations may happen at once after a pause.
	Burst int
}

// Defaults of Limits.
var (
	DefaultAll  = Limit{PerSecond: 200, Burst: 1000}
	DefaultEach = Limit{PerSecond: 0.2, Burst: 30}
)

// Limits are the limits of each operation.
type Limits struct {
	// All applies to all hosts together. Default: DefaultAll.
	All Limit
	// Each applies to one host. Default: DefaultEach.
	Each Limit
}

// Complete sets defaults for zero fields. It returns an error if a limit is out of range.
func (l *Limits) Complete() error {
	for limit, other := range map[*Limit]Limit{&l.All: DefaultAll, &l.Each: DefaultEach} {
		if limit.PerSecond == 0 {
			limit.PerSecond = other.PerSecond
		}
		if limit.Burst == 0 {
			limit.Burst = other.Burst
		}
		if !(limit.PerSecond >= slowest && limit.PerSecond <= fastest) || limit.Burst < 0 {
			return errors.New("rate limits of hosts must be 0.0001 to 1000000 per second, and bursts can't be negative; 0 " +
				"means the default")
		}
	}
	return nil
}

// Bounds of Limit.PerSecond: about one in three hours, and a rate that is never reached.
const (
	slowest = 1e-4
	fastest = 1e6
)

// Pacer tracks recent operations. A nil Pacer limits nothing. The records of a Pacer are lost when the process
// restarts. A Pacer is safe for concurrent use.
type Pacer struct {
	limits Limits
	clock  clock.PassiveClock

	mu    sync.Mutex
	all   map[Operation]time.Time
	each  map[turn]time.Time
	due   map[turn]time.Time // promised turns
	swept time.Time
}

// turn identifies an operation on one object.
type turn struct {
	operation Operation
	uid       types.UID
}

// New returns a Pacer. Call Complete on limits first.
func New(limits Limits, clock clock.PassiveClock) *Pacer {
	return &Pacer{
		limits: limits, clock: clock,
		all: map[Operation]time.Time{}, each: map[turn]time.Time{}, due: map[turn]time.Time{},
	}
}

// Ask returns how long an operation on a host must wait. If it returns 0, the operation counts as done. Otherwise the
// caller must ask again after that time.
func (p *Pacer) Ask(operation Operation, host types.UID) time.Duration {
	return p.ask(operation, host, true)
}

// AskForAny is like Ask, for a machine that doesn't know its host yet: only the limit for all hosts together applies.
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

// next takes a turn. It returns the time of the turn (at), and the time by which the limit has recovered from all turns
// taken so far (recovered). Pass recovered to the next call, as its argument used.
func (l Limit) next(used, now time.Time) (recovered, at time.Time) {
	every := time.Duration(float64(time.Second) / l.PerSecond)
	if used.Before(now) {
		used = now
	}
	used = used.Add(every)
	return used, used.Add(-time.Duration(l.Burst) * every)
}

// sweepEvery is how often outdated records are dropped, and how long a promised turn is kept for a caller that doesn't
// come back.
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
