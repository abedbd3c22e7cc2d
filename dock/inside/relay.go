//go:build linux

package inside

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/dock/state"
)

func local(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// startRelay opens the port that the relay has always had.
func (e *engine) startRelay(name string, want state.Relay) *forward {
	if want.Address != "" {
		return e.startPublication(name, want)
	}
	f := newForward(func() (net.Listener, error) { return e.listeners.Listen(want.Port) }, want.Target)
	if _, err := f.status(); err != nil {
		e.Log.Printf("relay %s: %v", name, err)
	}
	return f
}

// newRelay opens a free port. The caller passes the listener to the method adopt, or closes it.
func (e *engine) newRelay() (l net.Listener, port int, err error) {
	l, err = e.listeners.Listen(0)
	if err != nil {
		return nil, 0, err
	}
	return l, l.Addr().(*net.TCPAddr).Port, nil
}

// adopt makes a relay from an open listener.
func (e *engine) adopt(name string, l net.Listener, target string) *forward {
	return newForward(func() (net.Listener, error) { return l, nil }, target)
}

// ensureRelay serves dock.Client.EnsureRelay.
func (e *engine) ensureRelay(name, target string) (dock.Relay, error) {
	if err := checkName("relay", name); err != nil {
		return dock.Relay{}, err
	}
	if _, err := netip.ParseAddrPort(target); err != nil {
		return dock.Relay{}, invalid("the target of relay %s is not an address with a port: %v", name, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if have, exists := e.want.Relays[name]; exists {
		if have.Address != "" {
			return dock.Relay{}, invalid("%s is published at %s: delete that publication first", name, have.Address)
		}
		if have.Target != target {
			have.Target = target
			if err := e.change(func(s *state.State) error { s.Relays[name] = have; return nil }); err != nil {
				return dock.Relay{}, err
			}
			e.relays[name].setBackends([]string{target})
		}
		if err := e.relays[name].try(); err != nil {
			return dock.Relay{}, classify(fmt.Errorf("relay %s: %w", name, err))
		}
		return e.describeRelay(name), nil
	}
	l, port, err := e.newRelay()
	if err != nil {
		return dock.Relay{}, classify(fmt.Errorf("relay %s: %w", name, err))
	}
	if err := e.change(func(s *state.State) error {
		s.Relays[name] = state.Relay{Port: port, Target: target}
		return nil
	}); err != nil {
		l.Close()
		return dock.Relay{}, err
	}
	e.relays[name] = e.adopt(name, l, target)
	return e.describeRelay(name), nil
}

// deleteRelay serves dock.Client.DeleteRelay.
func (e *engine) deleteRelay(name string) error {
	if err := checkName("relay", name); err != nil {
		return err
	}
	e.mu.Lock()
	f := e.relays[name]
	if f == nil {
		e.mu.Unlock()
		return nil
	}
	if err := e.change(func(s *state.State) error { delete(s.Relays, name); return nil }); err != nil {
		e.mu.Unlock()
		return err
	}
	delete(e.relays, name)
	e.mu.Unlock()
	f.close()
	return nil
}

// describeRelay describes a relay. The caller holds e.mu.
func (e *engine) describeRelay(name string) dock.Relay {
	want := e.want.Relays[name]
	r := dock.Relay{Name: name, Local: local(want.Port), Target: want.Target}
	if want.Address != "" {
		r.Local = want.Address
	}
	if _, err := e.relays[name].status(); err != nil {
		r.Error = err.Error()
	}
	return r
}
