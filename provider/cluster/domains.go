package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/placement"
	"github.com/capstan-dev/capstan/provider/step"
)

// maxDomains is the limit of the contract (IC-19).
const maxDomains = 100

// failureDomains finds the zones that the inventory really has (IC-19).
func (r *Reconciler) failureDomains(ctx context.Context, s *scope) (_ step.Answer, err error) {
	s.domains, err = r.domainsOf(ctx, s.capstan.Namespace)
	return step.Next(), err
}

// planDomains returns the zones of the hosts that stay, sorted by name. A zone can carry one more control plane machine while a machine
// could take one of its hosts now: a machine that is bound to a zone waits there, even if others have hosts to spare. If all are
// taken, no zone is offered, and the next machine is bound to none: it gets the first host that comes free, wherever that is.
func planDomains(hosts []infrav1.CapstanHost) []clusterv1.FailureDomain {
	free := map[string]bool{}
	for i := range hosts {
		if host := &hosts[i]; host.DeletionTimestamp.IsZero() {
			free[host.Spec.Zone] = free[host.Spec.Zone] || placement.Free(host)
		}
	}
	var domains []clusterv1.FailureDomain
	for _, zone := range slices.Sorted(maps.Keys(free)) {
		if len(domains) < maxDomains {
			domains = append(domains, clusterv1.FailureDomain{Name: zone, ControlPlane: ptr.To(free[zone])})
		}
	}
	return domains
}

// domainsOf returns the failure domains of the inventory of a namespace.
func (r *Reconciler) domainsOf(ctx context.Context, namespace string) ([]clusterv1.FailureDomain, error) {
	hosts := &infrav1.CapstanHostList{}
	// Every change of a host asks for this: the hosts are only looked at, and not copied.
	if err := r.Client.List(ctx, hosts, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing hosts: %w", err)
	}
	return planDomains(slices.DeleteFunc(hosts.Items, func(h infrav1.CapstanHost) bool { return !r.Filter.Matches(&h) })), nil
}

// provisioned lets the status say so (IC-50), with the failure domains in the same patch (IC-51): see setStatus.
func (r *Reconciler) provisioned(_ context.Context, s *scope) (step.Answer, error) {
	s.done = true
	return step.Stop(), nil
}
