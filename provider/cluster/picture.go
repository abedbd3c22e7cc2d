package cluster

import (
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/placement"
)

// picture holds what the failure domains of a namespace's clusters depend on.
type picture struct {
	// zones holds the zones of Machines, and of hosts that have a machine or are not being deleted.
	zones map[string]*zone
	// claimed holds the names of the CapstanMachines that have a host.
	claimed map[string]bool
	// started holds the names of the clusters that have a control plane machine.
	started map[string]bool
	// promised maps the names of clusters without a control plane machine to the zone in which each is promised a host; ""
	// means that no host was left.
	promised map[string]string
	// namespace is the namespace of all these objects.
	namespace string
	// endpoints holds the zones of the hosts whose address is the endpoint of a cluster, keyed by the value of
	// infrav1.EndpointLabel.
	endpoints map[string]string
	// selections holds which hosts the control planes of clusters can use.
	selections map[string]selection
}

// zone is one failure domain.
type zone struct {
	// free holds the labels of the hosts that some machine could take now.
	free []labels.Set
	// bound counts the waiting machines that are bound to this zone.
	bound int
	// attributes holds the zone's attributes, which operators set with labels of hosts. Nil if there are none.
	attributes map[string]string
	// disputed holds attributes with different values on different hosts. They are left out of attributes.
	disputed map[string]bool
}

func newPicture(namespace string) picture {
	return picture{
		zones: map[string]*zone{}, claimed: map[string]bool{}, started: map[string]bool{}, promised: map[string]string{},
		namespace: namespace, endpoints: map[string]string{}, selections: map[string]selection{},
	}
}

// addHost adds the zone of a host, unless the host is being deleted and has no machine. Add all hosts before any
// machine.
func (p picture) addHost(host *infrav1.CapstanHost) {
	if host.Spec.Claim != nil {
		p.claimed[host.Spec.Claim.Machine] = true
	} else if !host.DeletionTimestamp.IsZero() {
		return
	}
	z := p.zone(host.Spec.Zone)
	if placement.Free(host) {
		z.free = append(z.free, host.Labels)
	}
	if mark := host.Labels[infrav1.EndpointLabel]; mark != "" {
		p.endpoints[mark] = host.Spec.Zone
	}
	for label, value := range host.Labels {
		if key, is := strings.CutPrefix(label, infrav1.ZoneAttributePrefix); is {
			z.say(key, value)
		}
	}
}

// addMachine counts a Machine that waits for a host of its zone. It also keeps the zone of a Machine whose host was
// given up. Add all machines before any cluster.
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

// addCluster records which hosts a cluster's control plane can use. For a cluster without a control plane machine, it
// also adds the promise.
func (p picture) addCluster(c *infrav1.CapstanCluster, promises *promises) {
	name := ownerName(c)
	p.selections[name] = selectionOf(&c.Spec)
	if name == "" || p.started[name] || !c.DeletionTimestamp.IsZero() {
		return
	}
	if where, known := promises.of(c.Namespace, name); known {
		p.promised[name] = where
	} else if ptr.Deref(c.Status.Initialization.Provisioned, false) {
		p.promised[name] = offered(c.Status.FailureDomains)
	}
}

// offered returns the zone that an earlier process promised a cluster: it is the only zone offered. It returns "" if no
// zone or more than one zone is offered.
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

// endpoint returns the zone of the host whose address is the endpoint of a cluster. It reports false if no host is
// marked for the cluster.
func (p picture) endpoint(cluster string) (string, bool) {
	zone, marked := p.endpoints[infrav1.EndpointMark(p.namespace, cluster)]
	return zone, marked
}

func (p picture) zone(name string) *zone {
	if p.zones[name] == nil {
		p.zones[name] = &zone{disputed: map[string]bool{}}
	}
	return p.zones[name]
}

// say records an attribute of the zone from a host's label.
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
