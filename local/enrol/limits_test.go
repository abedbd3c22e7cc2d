package enrol

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"
)

func TestLimiter(t *testing.T) {
	now := noon
	l := newLimiter(func() time.Time { return now })
	one, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for i := range perAddressBurst {
		if !l.allow(one) {
			t.Fatalf("request %d of an address is refused", i+1)
		}
	}
	if l.allow(one) {
		t.Error("the requests of one address are not limited")
	}
	if !l.allow(other) {
		t.Error("a request of another address was refused, too")
	}
	now = now.Add(time.Second)
	if !l.allow(one) || l.allow(one) {
		t.Error("after one second, an address may not send exactly one more request")
	}
	served := 0
	for i := range uint32(4 * burst) {
		if l.allow(netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, 0x0a000000+i)))) {
			served++
		}
	}
	if served > burst {
		t.Errorf("%d requests of different addresses were served at once, more than the limit", served)
	}
}

// TestAComputersAddressesCountAsOne: a computer can use any number of IPv6 addresses of its prefix.
func TestAComputersAddressesCountAsOne(t *testing.T) {
	now := noon
	l := newLimiter(func() time.Time { return now })
	served := 0
	for i := range 2 * perAddressBurst {
		a := netip.MustParseAddr("2001:db8:1:2::").As16()
		a[15] = byte(i)
		if l.allow(netip.AddrFrom16(a)) {
			served++
		}
	}
	if served != perAddressBurst {
		t.Errorf("%d requests of one network were served, want %d", served, perAddressBurst)
	}
}

// TestTheLimiterForgets: memory is bounded, however many addresses send requests.
func TestTheLimiterForgets(t *testing.T) {
	now := noon
	l := newLimiter(func() time.Time { return now })
	for i := range uint32(3 * addresses) {
		l.allow(netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, 0x0a000000+i))))
	}
	if len(l.each) > addresses {
		t.Errorf("%d addresses are remembered, more than the limit", len(l.each))
	}
}

func TestSlots(t *testing.T) {
	s := newSlots(3, 2)
	a, b, c := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.3")
	if first, second := s.take(a), s.take(a); !first || !second || s.take(a) {
		t.Error("one address did not get exactly two slots")
	}
	if !s.take(b) || s.take(c) {
		t.Error("all addresses together did not get exactly three slots")
	}
	s.leave(a)
	if !s.take(c) {
		t.Error("a slot that one address left is not free for another")
	}
	s.leave(a)
	s.leave(b)
	s.leave(c)
	if s.sum != 0 || len(s.used) != 0 {
		t.Errorf("slots are still taken after all were left: %+v", s)
	}
}
