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
	"github.com/capstan-dev/capstan/provider/step"
)

// maxDomains is the contract's limit of failure domains (IC-19).
const maxDomains = 100

// failureDomains computes the failure domains from the zones of the inventory (IC-19).
func (r *Reconciler) failureDomains(ctx context.Context, s *scope) (step.Answer, error) {
	r.promises.mu.Lock() // two clusters created at the same time must not be promised the same host
	defer r.promises.mu.Unlock()
	p, err := r.look(ctx, s.capstan.Namespace)
	if err != nil {
		return step.Answer{}, err
	}
	s.domains = r.promises.commit(p, s.name)
	return step.Next(), nil
}

// domains returns the failure domains of a cluster, sorted by name. A zone is offered to control plane machines only
// while it has a host to spare, because a machine that is bound to a zone waits for a host there even if other zones
// have free hosts. If no zone has a host to spare, no zone is offered. The next machine is then bound to no zone and
// gets the first free host.
//
// A cluster without a control plane machine is offered only the zone in which it is promised a host; other clusters
// can't use that host. The control plane's controller picks any offered zone before anybody can see its machine. If
// several zones were offered, all clusters created at the same time could pick the same one.
//
// A cluster whose spec selects the hosts of control planes is offered only zones with such a host.
//
// A cluster whose endpoint is the address of a host is offered that host's zone, and no other.
func (p picture) domains(cluster string) []clusterv1.FailureDomain {
	promised, waits := p.promised[cluster]
	endpoint, marked := p.endpoint(cluster)
	var domains []clusterv1.FailureDomain
	for _, name := range slices.Sorted(maps.Keys(p.zones)) {
		if len(domains) == maxDomains {
			break
		}
		offered := p.room(name, cluster) > 0
		switch {
		case marked:
			offered = name == endpoint
		case waits:
			offered = name == promised
		}
		domains = append(domains, clusterv1.FailureDomain{
			Name: name, ControlPlane: ptr.To(offered), Attributes: p.zones[name].attributes,
		})
	}
	return domains
}

// look collects what the failure domains of a namespace's clusters depend on. The caller must hold the lock of the
// promises.
func (r *Reconciler) look(ctx context.Context, namespace string) (picture, error) {
	hosts, machines := &infrav1.CapstanHostList{}, &clusterv1.MachineList{}
	clusters := &infrav1.CapstanClusterList{}
	for what, list := range map[string]client.ObjectList{"hosts": hosts, "machines": machines, "clusters": clusters} {
		// Every change of a host leads here, so avoid copying the objects, which are only read.
		if err := r.Client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return picture{}, fmt.Errorf("listing %s: %w", what, err)
		}
	}
	p := newPicture(namespace)
	for i := range hosts.Items {
		if r.Filter.Matches(&hosts.Items[i]) {
			p.addHost(&hosts.Items[i])
		}
	}
	for i := range machines.Items {
		p.addMachine(&machines.Items[i])
	}
	for i := range clusters.Items {
		if c := &clusters.Items[i]; r.Filter.Matches(c) && !externallyManaged(c) {
			p.addCluster(c, &r.promises)
		}
	}
	return p, nil
}

// provisioned makes writeStatus report the cluster as provisioned (IC-50), in the same patch as its failure domains
// (IC-51).
func (r *Reconciler) provisioned(_ context.Context, s *scope) (step.Answer, error) {
	s.done = true
	return step.Stop(), nil
}
