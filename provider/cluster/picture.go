package cluster

import (
	"strings"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/placement"
)

// picture is what the failure domains of the clusters of a namespace depend on.
type picture struct {
	// zones are those of the hosts that stay, and of those that carry a machine.
	zones map[string]*zone
	// claimed are the CapstanMachines that have a host.
	claimed map[string]bool
	// started are the clusters, by name, that have a control plane machine.
	started map[string]bool
	// promised has the zone in which each cluster without a control plane machine is promised a host, by the cluster's
	// name. Empty: there was none left.
	promised map[string]string
}

// zone is one failure domain.
type zone struct {
	// free counts the hosts that some machine could take now.
	free int
	// bound counts the machines that wait for a host of this zone, and can have no other.
	bound int
	// attributes are what the operator says of the zone. Nil: nothing.
	attributes map[string]string
	// disputed are attributes of which hosts say different things: they are left out.
	disputed map[string]bool
}

func newPicture() picture {
	return picture{
		zones: map[string]*zone{}, claimed: map[string]bool{}, started: map[string]bool{}, promised: map[string]string{},
	}
}

// addHost adds the zone of a host that stays, or that carries a machine while it goes. Hosts come before machines.
func (p picture) addHost(host *infrav1.CapstanHost) {
	if host.Spec.Claim != nil {
		p.claimed[host.Spec.Claim.Machine] = true
	} else if !host.DeletionTimestamp.IsZero() {
		return
	}
	z := p.zone(host.Spec.Zone)
	if placement.Free(host) {
		z.free++
	}
	for label, value := range host.Labels {
		if key, is := strings.CutPrefix(label, infrav1.ZoneAttributePrefix); is {
			z.say(key, value)
		}
	}
}

// addMachine counts a Machine that waits for a host of its zone. A zone that holds a machine stays, also when its host
// was given up. Machines come before clusters.
func (p picture) addMachine(machine *clusterv1.Machine) {
	if machine.Spec.InfrastructureRef.APIGroup != infrav1.GroupVersion.Group {
		return
	}
	if machine.Status.FailureDomain != "" {
		p.zone(machine.Status.FailureDomain)
	}
	if !machine.DeletionTimestamp.IsZero() {
		return
	}
	if util.IsControlPlaneMachine(machine) {
		p.started[machine.Spec.ClusterName] = true
	}
	if z := p.zones[machine.Spec.FailureDomain]; z != nil && !p.claimed[machine.Spec.InfrastructureRef.Name] {
		z.bound++
	}
}

// addCluster adds what a cluster without a control plane machine is promised.
func (p picture) addCluster(c *infrav1.CapstanCluster, promises *promises) {
	name := ownerName(c)
	if name == "" || p.started[name] || !c.DeletionTimestamp.IsZero() {
		return
	}
	if where, known := promises.of(c.Namespace, name); known {
		p.promised[name] = where
	} else if ptr.Deref(c.Status.Initialization.Provisioned, false) {
		p.promised[name] = offered(c.Status.FailureDomains)
	}
}

// offered returns the zone that a cluster was promised by the process before this one: the only one that it is offered.
func offered(domains []clusterv1.FailureDomain) string {
	found := ""
	for _, d := range domains {
		if !ptr.Deref(d.ControlPlane, false) {
			continue
		}
		if found != "" {
			return ""
		}
		found = d.Name
	}
	return found
}

// room returns how many hosts of a zone are neither waited for nor promised.
func (p picture) room(name string) int {
	z := p.zones[name]
	room := z.free - z.bound
	for _, promised := range p.promised {
		if promised == name {
			room--
		}
	}
	return room
}

func (p picture) zone(name string) *zone {
	if p.zones[name] == nil {
		p.zones[name] = &zone{disputed: map[string]bool{}}
	}
	return p.zones[name]
}

// say notes what a host's label says of its zone.
func (z *zone) say(key, value string) {
	if has, known := z.attributes[key]; z.disputed[key] || known && has != value {
		z.disputed[key] = true
		delete(z.attributes, key)
		return
	}
	if z.attributes == nil {
		z.attributes = map[string]string{}
	}
	z.attributes[key] = value
}
