package cluster

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/step"
)

// maxDomains is the limit of the contract (IC-19).
const maxDomains = 100

// failureDomains finds the zones that the inventory really has (IC-19).
func (r *Reconciler) failureDomains(ctx context.Context, s *scope) (step.Answer, error) {
	hosts := &infrav1.CapstanHostList{}
	if err := r.Client.List(ctx, hosts, client.InNamespace(s.capstan.Namespace)); err != nil {
		return step.Answer{}, fmt.Errorf("listing hosts: %w", err)
	}
	s.domains = planDomains(slices.DeleteFunc(hosts.Items, func(h infrav1.CapstanHost) bool { return !r.Filter.Matches(&h) }))
	return step.Next(), nil
}

// planDomains returns the zones of the hosts that stay, sorted by name. Every zone can carry control planes.
func planDomains(hosts []infrav1.CapstanHost) []clusterv1.FailureDomain {
	var zones []string
	for _, host := range hosts {
		if host.DeletionTimestamp.IsZero() {
			zones = append(zones, host.Spec.Zone)
		}
	}
	slices.Sort(zones)
	var domains []clusterv1.FailureDomain
	for _, zone := range slices.Compact(zones) {
		if len(domains) < maxDomains {
			domains = append(domains, clusterv1.FailureDomain{Name: zone, ControlPlane: ptr.To(true)})
		}
	}
	return domains
}

// provisioned lets the status say so (IC-50), with the failure domains in the same patch (IC-51): see conclude.
func (r *Reconciler) provisioned(_ context.Context, s *scope) (step.Answer, error) {
	s.done = true
	return step.Stop(), nil
}
