//go:build linux

package inside

import (
	"net"
	"net/netip"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/dock/balancer"
	"github.com/capstan-dev/capstan/dock/state"
)

// publish serves dock.Client.Publish.
func (e *engine) publish(name string, p dock.Publication) (dock.Relay, error) {
	if err := checkName("relay", name); err != nil {
		return dock.Relay{}, err
	}
	at, err := netip.ParseAddrPort(p.Address)
	if err != nil || at.Port() == 0 {
		return dock.Relay{}, invalid(
			"%s can't be published at %q, which is not an address with a port",
			name,
			p.Address,
		)
	}
	if _, err := netip.ParseAddrPort(p.Target); err != nil {
		return dock.Relay{}, invalid("the target of %s is not an address with a port: %v", name, err)
	}
	want := state.Relay{Target: p.Target, Address: at.String(), Announce: p.Announce}
	e.mu.Lock()
	have, exists := e.want.Relays[name]
	e.mu.Unlock()
	switch {
	case exists && have.Address == "":
		return dock.Relay{}, invalid("%s is the name of a relay on loopback: delete that relay first", name)
	case exists && have != want:
		if err := e.deleteRelay(name); err != nil { // the old publication may use the same port
			return dock.Relay{}, err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if f := e.relays[name]; f != nil {
		_ = f.try() // the answer reports what keeps it from working
		return e.describeRelay(name), nil
	}
	if err := e.change(func(s *state.State) error { s.Relays[name] = want; return nil }); err != nil {
		return dock.Relay{}, err
	}
	e.relays[name] = e.startPublication(name, want)
	return e.describeRelay(name), nil
}

// startPublication listens at want's address, which was validated when it was published.
func (e *engine) startPublication(name string, want state.Relay) *forward {
	options := balancer.Options{PerSource: dock.PerSource, Announce: want.Announce}
	f := newForwardWith(options, func() (net.Listener, error) {
		at, err := netip.ParseAddrPort(want.Address)
		if err != nil {
			return nil, err
		}
		return e.listeners.ListenAt(at)
	}, want.Target)
	if _, err := f.status(); err != nil {
		e.Log.Printf("%s is not published yet: %v", name, err)
	}
	return f
}
