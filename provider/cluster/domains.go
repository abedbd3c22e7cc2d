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

// maxDomains is the limit of the contract (IC-19).
const maxDomains = 100

// failureDomains finds the zones that the inventory really has (IC-19).
func (r *Reconciler) failureDomains(ctx context.Context, s *scope) (step.Answer, error) {
	r.promises.mu.Lock() // two clusters made at once don't get the same host
	defer r.promises.mu.Unlock()
	p, err := r.look(ctx, s.capstan.Namespace)
	if err != nil {
		return step.Answer{}, err
	}
	s.domains = r.promises.commit(p, s.name)
	return step.Next(), nil
}

// domains returns the failure domains of a cluster, sorted by name. A zone can carry one more control plane machine of
// the cluster while it has a host for it: a machine that is bound to a zone waits there, even if others have hosts to
// spare. If all are taken, no zone is offered, and the next machine is bound to none: it gets the first host that comes
// free, wherever that is.
//
// A cluster without a control plane machine is offered the one zone that it is promised, and others leave the host to
// it. The control plane's controller picks any zone that is offered, and does so before anybody sees its machine: with
// more than one zone offered, all clusters of a moment could pick the same.
func (p picture) domains(cluster string) []clusterv1.FailureDomain {
	promised, waits := p.promised[cluster]
	var domains []clusterv1.FailureDomain
	for _, name := range slices.Sorted(maps.Keys(p.zones)) {
		if len(domains) == maxDomains {
			break
		}
		offered := p.room(name) > 0
		if waits {
			offered = name == promised
		}
		domains = append(domains, clusterv1.FailureDomain{
			Name: name, ControlPlane: ptr.To(offered), Attributes: p.zones[name].attributes,
		})
	}
	return domains
}

// look finds out what the failure domains of a namespace's clusters depend on. The caller holds the lock of the
// promises.
func (r *Reconciler) look(ctx context.Context, namespace string) (picture, error) {
	hosts, machines := &infrav1.CapstanHostList{}, &clusterv1.MachineList{}
	clusters := &infrav1.CapstanClusterList{}
	for what, list := range map[string]client.ObjectList{"hosts": hosts, "machines": machines, "clusters": clusters} {
		// Every change of a host asks for this: the objects are only looked at, and not copied.
		if err := r.Client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return picture{}, fmt.Errorf("listing %s: %w", what, err)
		}
	}
	p := newPicture()
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

// provisioned lets the status say so (IC-50), with the failure domains in the same patch (IC-51): see setStatus.
func (r *Reconciler) provisioned(_ context.Context, s *scope) (step.Answer, error) {
	s.done = true
	return step.Stop(), nil
}
