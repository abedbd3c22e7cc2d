package enrol

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits of the enrolment server. They are for people who enroll a rack at once; who has no credential can't do more.
const (
	// perAddress and perAddressBurst are requests of one address, perSecond and burst those of all together.
	perAddress, perAddressBurst = rate.Limit(1), 30
	perSecond, burst            = rate.Limit(20), 200
	// enrolments, and downloads of the agent, at the same time: of all together and of one address.
	enrolments, downloads, downloadsOfOne = 8, 32, 8
	// connections at the same time: of all together and of one address.
	connections, connectionsOfOne = 256, 48
	// addresses is how many are remembered.
	addresses = 8192
)

// limiter bounds how many requests are served.
type limiter struct {
	now func() time.Time
	all *rate.Limiter

	mu   sync.Mutex
	each map[netip.Prefix]*rate.Limiter
}

func newLimiter(now func() time.Time) *limiter {
	return &limiter{now: now, all: rate.NewLimiter(perSecond, burst), each: map[netip.Prefix]*rate.Limiter{}}
}

// allow reports whether a request from an address is served. One that asks too often takes nothing from the others.
func (l *limiter) allow(from netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, network := l.now(), network(from)
	one, known := l.each[network]
	if !known {
		if len(l.each) >= addresses {
			l.forget(now)
		}
		one = rate.NewLimiter(perAddress, perAddressBurst)
		l.each[network] = one
	}
	return one.AllowN(now, 1) && l.all.AllowN(now, 1)
}

// forget drops the addresses that have not asked for a while, or all if that is none: what all together may do is
// bounded anyway.
func (l *limiter) forget(now time.Time) {
	for network, one := range l.each {
		if one.TokensAt(now) >= perAddressBurst {
			delete(l.each, network)
		}
	}
	if len(l.each) >= addresses {
		clear(l.each)
	}
}

// network returns what counts as one address: a computer has as many of IPv6 as it likes.
func network(from netip.Addr) netip.Prefix {
	bits := 64
	if from.Is4() {
		bits = 32
	}
	p, err := from.WithZone("").Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// slots bounds what is done at the same time, for one address and together.
type slots struct {
	all, one int

	mu   sync.Mutex
	used map[netip.Prefix]int
	sum  int
}

func newSlots(all, one int) *slots { return &slots{all: all, one: one, used: map[netip.Prefix]int{}} }

// take reports whether there is room; then leave must be called.
func (s *slots) take(from netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	network := network(from)
	if s.sum >= s.all || s.used[network] >= s.one {
		return false
	}
	s.sum++
	s.used[network]++
	return true
}

func (s *slots) leave(from netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	network := network(from)
	s.sum--
	if s.used[network]--; s.used[network] <= 0 {
		delete(s.used, network)
	}
}
