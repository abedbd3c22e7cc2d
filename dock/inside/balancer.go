//go:build linux

package inside

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/dock/network"
	"github.com/capstan-dev/capstan/dock/state"
)

// maxBackends bounds the backends of one balancer.
const maxBackends = 256

// startBalancer adds the balancer's address to the bridge and listens there.
func (e *engine) startBalancer(name string, want state.Balancer) *forward {
	f := newForward(func() (net.Listener, error) {
		if err := network.Apply(e.kernel, network.PlanBalancer(want.Address)); err != nil {
			return nil, err
		}
		l, err := net.Listen("tcp4", netip.AddrPortFrom(want.Address, dock.BalancerPort).String())
		if err != nil {
			return nil, fmt.Errorf("listening for balancer %s: %w", name, err)
		}
		return l, nil
	}, want.Backends...)
	if _, err := f.status(); err != nil {
		e.Log.Printf("balancer %s: %v", name, err)
	}
	return f
}

// ensureBalancer serves dock.Client.EnsureBalancer.
func (e *engine) ensureBalancer(name string) (dock.Balancer, error) {
	if err := checkName("balancer", name); err != nil {
		return dock.Balancer{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	relay := state.BalancerRelay(name)
	if _, exists := e.want.Balancers[name]; exists {
		for _, f := range []*forward{e.balancers[name], e.relays[relay]} {
			if err := f.try(); err != nil {
				return dock.Balancer{}, classify(fmt.Errorf("balancer %s: %w", name, err))
			}
		}
		return e.describeBalancer(name), nil
	}
	used := map[netip.Addr]bool{}
	for _, b := range e.want.Balancers {
		used[b.Address] = true
	}
	address, err := network.Balancers.Next(e.want.LastBalancer, used)
	if err != nil {
		return dock.Balancer{}, classify(fmt.Errorf("balancer %s: %w", name, err))
	}
	l, port, err := e.newRelay()
	if err != nil {
		return dock.Balancer{}, classify(fmt.Errorf("balancer %s: %w", name, err))
	}
	target := netip.AddrPortFrom(address, dock.BalancerPort).String()
	err = e.change(func(s *state.State) error {
		s.LastBalancer = address
		s.Balancers[name] = state.Balancer{Address: address}
		s.Relays[relay] = state.Relay{Port: port, Target: target}
		return nil
	})
	if err != nil {
		l.Close()
		return dock.Balancer{}, err
	}
	e.balancers[name] = e.startBalancer(name, e.want.Balancers[name])
	e.relays[relay] = e.adopt(relay, l, target)
	return e.describeBalancer(name), nil
}

// setBackends serves dock.Client.SetBackends.
func (e *engine) setBackends(name string, backends []string) error {
	if len(backends) > maxBackends {
		return invalid("balancer %s: %d backends are more than %d", name, len(backends), maxBackends)
	}
	for _, b := range backends {
		if _, err := netip.ParseAddrPort(b); err != nil {
			return invalid("balancer %s: backend %q is not an address with a port", name, b)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	have, exists := e.want.Balancers[name]
	if !exists {
		return notFound("balancer", name)
	}
	if slices.Equal(have.Backends, backends) {
		return nil
	}
	have.Backends = slices.Clone(backends)
	if err := e.change(func(s *state.State) error { s.Balancers[name] = have; return nil }); err != nil {
		return err
	}
	e.balancers[name].setBackends(have.Backends)
	return nil
}

// deleteBalancer serves dock.Client.DeleteBalancer.
func (e *engine) deleteBalancer(name string) error {
	if err := checkName("balancer", name); err != nil {
		return err
	}
	relay := state.BalancerRelay(name)
	e.mu.Lock()
	want, exists := e.want.Balancers[name]
	if !exists {
		e.mu.Unlock()
		return nil
	}
	err := e.change(func(s *state.State) error {
		delete(s.Balancers, name)
		delete(s.Relays, relay)
		return nil
	})
	if err != nil {
		e.mu.Unlock()
		return err
	}
	front, back := e.relays[relay], e.balancers[name]
	delete(e.relays, relay)
	delete(e.balancers, name)
	e.mu.Unlock()
	front.close()
	back.close()
	return classify(network.Apply(e.kernel, network.PlanNoBalancer(want.Address)))
}

// describeBalancer describes a balancer. The caller holds e.mu.
func (e *engine) describeBalancer(name string) dock.Balancer {
	want := e.want.Balancers[name]
	relay := state.BalancerRelay(name)
	down, err := e.balancers[name].status()
	if err == nil {
		_, err = e.relays[relay].status()
	}
	b := dock.Balancer{
		Name: name, Address: want.Address.String(), Port: dock.BalancerPort, Backends: want.Backends, Down: down,
		Relay: local(e.want.Relays[relay].Port),
	}
	if err != nil {
		b.Error = err.Error()
	}
	return b
}
