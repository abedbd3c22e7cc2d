package enrol

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits of the enrolment server. They are sized for enrolling a rack at once, and also apply to callers without a
// credential.
const (
	// perAddress and perAddressBurst limit the requests from one address, perSecond and burst those from all addresses.
	perAddress, perAddressBurst = rate.Limit(1), 30
	perSecond, burst            = rate.Limit(20), 200
	// Concurrent enrolments and downloads of the agent, in total, and downloads from one address.
	enrolments, downloads, downloadsOfOne = 8, 32, 8
	// Concurrent connections, in total and from one address.
	connections, connectionsOfOne = 256, 48
	// addresses is how many addresses the limiter remembers.
	addresses = 8192
)

// limiter limits the rate of requests.
type limiter struct {
	now func() time.Time
	all *rate.Limiter

	mu   sync.Mutex
	each map[netip.Prefix]*rate.Limiter
}

func newLimiter(now func() time.Time) *limiter {
	return &limiter{now: now, all: rate.NewLimiter(perSecond, burst), each: map[netip.Prefix]*rate.Limiter{}}
}

// allow reports whether to serve a request from an address. An address over its own limit does not use up the total.
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

// forget drops the addresses that have been idle for a while, or all of them if none has been. The total limit still
// holds.
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

// network returns the prefix that counts as one address: a computer can use any number of addresses of its IPv6 prefix.
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

// slots limits concurrent work, per address and in total.
type slots struct {
	all, one int

	mu   sync.Mutex
	used map[netip.Prefix]int
	sum  int
}

func newSlots(all, one int) *slots { return &slots{all: all, one: one, used: map[netip.Prefix]int{}} }

// take reports whether a slot is free, and occupies it; the caller must then call leave.
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
