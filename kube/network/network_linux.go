package network

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/capstan-dev/capstan/kube/network/table"
)

// ErrNoRange is returned when a pod is added before the Node has a pod range.
var ErrNoRange = errors.New("the Node has no pod range yet: it gets one from the cluster's controller manager, " +
	"if the cluster has a pod network (clusterNetwork.pods of the Cluster, podSubnet of kubeadm)")

// Network is the network of this host's pods. It is safe for concurrent use.
type Network struct {
	step func(string)

	mu        sync.Mutex // guards everything below, and the input of the packet rules
	addresses Addresses
	ranges    []netip.Prefix
	old       []netip.Prefix // earlier ranges, in which pods still hold addresses
	uplink    Uplink
	ready     error          // why pods can't have a network; nil if they can
	pods      map[string]Pod // pods that have a cable or are about to get one
}

// New returns a network without ranges. step, which may be nil, is called between the steps of changes, with the name
// of the next step.
func New(step func(string)) *Network {
	if step == nil {
		step = func(string) {}
	}
	return &Network{step: step, ready: ErrNoRange, pods: map[string]Pod{}}
}

// Ready returns the reason why pods can't have a network yet, or nil. It retries what failed before.
func (n *Network) Ready() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ready != nil && len(n.ranges) > 0 {
		n.ready = n.prepare()
	}
	return n.ready
}

// SetRanges sets the ranges of the Node's pods and prepares the host. Pods keep the addresses that they have.
func (n *Network) SetRanges(ranges []netip.Prefix) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ready == nil && slices.Equal(n.ranges, ranges) {
		return nil
	}
	for _, r := range n.ranges {
		if !slices.Contains(ranges, r) && !slices.Contains(n.old, r) {
			n.old = append(n.old, r)
		}
	}
	n.old = slices.DeleteFunc(n.old, func(r netip.Prefix) bool { return slices.Contains(ranges, r) })
	n.ranges = slices.Clone(ranges)
	n.addresses.SetRanges(ranges)
	n.ready = n.prepare()
	return n.ready
}

// prepare sets up what the host needs for its pods. The caller holds the lock.
func (n *Network) prepare() error {
	k, err := Open()
	if err != nil {
		return err
	}
	defer k.Close()
	if n.uplink, err = k.Uplink(); err != nil {
		return err
	}
	var plan []Op
	n.old = slices.DeleteFunc(n.old, func(r netip.Prefix) bool {
		if n.addresses.HoldsIn(r) {
			return false
		}
		plan = append(plan, PlanNoRange(r)...)
		return true
	})
	if err := Apply(k, append(plan, PlanHost(n.ranges, n.uplink.Address)...)); err != nil {
		return err
	}
	return n.applyRules()
}

// applyRules replaces the packet rules by those for the current pods. The caller holds the lock.
func (n *Network) applyRules() error {
	pods := make([]Pod, 0, len(n.pods))
	for _, p := range n.pods {
		pods = append(pods, p)
	}
	return table.Apply(rules(slices.Concat(n.ranges, n.old), pods))
}

// locate sets the gateway and the source for each of a pod's addresses. The caller holds the lock.
func (n *Network) locate(p *Pod) error {
	for _, a := range p.Addresses {
		all := slices.Concat(n.ranges, n.old)
		i := slices.IndexFunc(all, func(r netip.Prefix) bool { return r.Contains(a) })
		if i < 0 {
			return fmt.Errorf("address %s is outside the ranges of this Node", a)
		}
		p.Gateways = append(p.Gateways, Gateway(all[i]))
		p.Sources = append(p.Sources, Source(all[i], n.uplink.Address))
	}
	return nil
}

// Add gives a pod addresses, a cable and its ports, either all or none. It returns the addresses.
func (n *Network) Add(id, space string, ports []HostPort) ([]netip.Addr, error) {
	p, mtu, err := n.reserve(Pod{ID: id, Space: space, Ports: ports})
	if err != nil {
		return nil, err
	}
	if err := n.connect(p, mtu); err != nil {
		return nil, errors.Join(err, n.Remove(id))
	}
	return p.Addresses, nil
}

// reserve takes addresses and ports for a pod.
func (n *Network) reserve(p Pod) (Pod, int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ready != nil {
		return p, 0, n.ready
	}
	others := make([]Pod, 0, len(n.pods))
	for _, other := range n.pods {
		others = append(others, other)
	}
	if err := Conflict(p, others); err != nil {
		return p, 0, err
	}
	var err error
	if p.Addresses, err = n.addresses.Take(p.ID); err != nil {
		return p, 0, err
	}
	if err := n.locate(&p); err != nil {
		return p, 0, err
	}
	n.pods[p.ID] = p
	return p, n.uplink.MTU, nil
}

func (n *Network) connect(p Pod, mtu int) error {
	k, err := Open()
	if err != nil {
		return err
	}
	defer k.Close()
	n.step("cable")
	if err := Apply(k, PlanCable(p, mtu)); err != nil {
		return err
	}
	n.step("pod")
	err = Within(p.Space, func() error {
		inside, err := Open()
		if err != nil {
			return err
		}
		defer inside.Close()
		return Apply(inside, PlanPod(p))
	})
	if err == nil {
		err = Apply(k, PlanRunning(p.ID))
	}
	if err != nil || len(p.Ports) == 0 {
		return err
	}
	n.step("ports")
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.applyRules(); err != nil {
		return err
	}
	return k.Forget(nil, p.Ports)
}

// Remove removes a pod's cable and ports, and frees its addresses. It succeeds if the pod has no network or was removed
// before.
func (n *Network) Remove(id string) error {
	k, err := Open()
	if err != nil {
		return err
	}
	defer k.Close()
	n.step("no cable")
	if err := Apply(k, PlanNoCable(id)); err != nil {
		return err
	}
	n.step("no ports")
	n.mu.Lock()
	defer n.mu.Unlock()
	p, known := n.pods[id]
	if !known {
		n.addresses.Free(id)
		return nil
	}
	delete(n.pods, id)
	if len(p.Ports) > 0 {
		if err := n.applyRules(); err != nil {
			n.pods[id] = p
			return err
		}
	}
	if err := k.Forget(p.Addresses, p.Ports); err != nil {
		n.pods[id] = p
		return err
	}
	n.addresses.Free(id)
	return nil
}

// Restore takes over the pods from before a restart, and removes the cables and packet rules of all others. It returns
// the ids of pods that lost their cable or whose addresses are not this Node's any more. These pods keep their
// addresses until they are removed.
func (n *Network) Restore(ranges []netip.Prefix, pods []Pod) (lost []string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	k, err := Open()
	if err != nil {
		return nil, err
	}
	defer k.Close()
	cables, err := k.Cables()
	if err != nil {
		return nil, err
	}
	if n.uplink, err = k.Uplink(); err != nil {
		return nil, err
	}
	n.ranges = slices.Clone(ranges)
	n.addresses.SetRanges(ranges)
	kept := map[string]bool{}
	for _, p := range pods {
		if err := n.addresses.Hold(p.ID, p.Addresses); err != nil {
			return nil, err
		}
		if err := n.locate(&p); err != nil || !slices.Contains(cables, LinkName(p.ID)) {
			lost = append(lost, p.ID)
			continue
		}
		n.pods[p.ID] = p
		kept[LinkName(p.ID)] = true
	}
	for _, cable := range cables {
		if !kept[cable] {
			if err := k.DeleteLink(cable); err != nil {
				return nil, fmt.Errorf("removing a cable that a pod has left behind: %w", err)
			}
		}
	}
	if len(n.ranges) == 0 {
		n.ready = ErrNoRange
		return lost, table.Remove(TableName)
	}
	n.ready = n.prepare()
	return lost, nil
}
