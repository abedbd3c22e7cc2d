package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/internal/hint"
	"github.com/capstan-dev/capstan/internal/poll"
	"github.com/capstan-dev/capstan/internal/text"
	"github.com/capstan-dev/capstan/provider/inventory"
)

// Host summarizes a host of the inventory, whether local or enrolled. Its JSON form is stable.
type Host struct {
	Name string `json:"name"`
	// Namespace is the namespace that it is registered in.
	Namespace string `json:"namespace"`
	// State is the phase of the CapstanHost, such as Off, Available or InUse.
	State string `json:"state"`
	// Zone is its failure domain.
	Zone string `json:"zone"`
	// Cluster, Machine and Version are those of the claim, if there is one.
	Cluster string `json:"cluster,omitempty"`
	Machine string `json:"machine,omitempty"`
	Version string `json:"version,omitempty"`
	// Address is its IP address once its agent has reported it.
	Address string      `json:"address,omitempty"`
	Created metav1.Time `json:"created"`
	// Reason says in one line why the host is not ready or out of use.
	Reason string `json:"reason,omitempty"`
	// Facts are what the host reports about itself.
	Facts Facts `json:"facts,omitzero"`
}

// reasonLength is the maximum length of a Reason, in characters.
const reasonLength = 80

// Hosts returns the hosts of a namespace, sorted by name. An empty namespace means all, sorted by namespace and name.
func Hosts(ctx context.Context, c client.Reader, namespace string) ([]Host, error) {
	list := &infrav1.CapstanHostList{}
	if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, hint.Errorf("run: capstan status", "listing hosts: %w", err)
	}
	hosts := make([]Host, 0, len(list.Items))
	for i := range list.Items {
		hosts = append(hosts, hostOf(&list.Items[i]))
	}
	slices.SortFunc(hosts, func(a, b Host) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return hosts, nil
}

// hostOf summarizes a host.
func hostOf(h *infrav1.CapstanHost) Host {
	host := Host{Name: h.Name, Namespace: h.Namespace, State: string(h.Status.Phase), Zone: h.Spec.Zone,
		Created: h.CreationTimestamp, Facts: factsOf(h.Status.Agent)}
	if claim := h.Spec.Claim; claim != nil {
		host.Cluster, host.Machine, host.Version = claim.Cluster, claim.Machine, claim.KubernetesVersion
	}
	if agent := h.Status.Agent; agent != nil {
		host.Address = agent.Address
	}
	if c := meta.FindStatusCondition(h.Status.Conditions, infrav1.ReadyCondition); c != nil &&
		c.Status != metav1.ConditionTrue {
		host.Reason = text.OneLine(c.Message, reasonLength)
	}
	if c := meta.FindStatusCondition(h.Status.Conditions, infrav1.DrainedCondition); c != nil &&
		c.Status != metav1.ConditionTrue {
		host.Reason = text.OneLine("being drained: "+c.Message, reasonLength)
	}
	switch {
	case host.Reason != "" || !h.Spec.Closed():
	case h.Spec.Maintenance != "":
		host.Reason = text.OneLine("in maintenance: "+h.Spec.Maintenance, reasonLength)
	default:
		host.Reason = "unschedulable"
	}
	return host
}

// waitForHosts waits until the inventory is complete and the state of each host is known. Before that, the creation of
// a cluster would be refused or delayed.
func (s *starter) waitForHosts(ctx context.Context, docked *dock.Client, waiting func(string)) error {
	c, err := Connect(string(s.home))
	if err != nil {
		return err
	}
	return poll.Until(ctx, func() (bool, error) {
		list := &infrav1.CapstanHostList{}
		if err := c.List(ctx, list); err != nil {
			if _, gone := docked.Status(ctx); errors.Is(gone, ErrNotRunning) {
				return true, ErrDockEnded
			}
			return false, err
		}
		n := countSettled(list.Items)
		waiting(fmt.Sprintf("%d of %d hosts", n, s.hosts))
		if n < s.hosts {
			return false, nil
		}
		// The plane may have stopped after it was ready, and may be starting again. Then only a part of it has
		// answered.
		status, err := Status(ctx, s.place)
		return err == nil && status.Plane == PhaseReady, err
	})
}

// countSettled counts the hosts of the budget, in all namespaces, whose state the plane knows.
func countSettled(hosts []infrav1.CapstanHost) int {
	n := 0
	for i := range hosts {
		h := &hosts[i]
		if inventory.IsOfBudget(h) && h.Status.Phase != "" && h.Status.Phase != infrav1.HostEnrolling {
			n++
		}
	}
	return n
}
