package cluster

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/placement"
)

// selection says which hosts a control plane can use. The zero value means all.
type selection struct {
	selector labels.Selector
	// text is the same for equal selectors.
	text string
}

// selectionOf returns which hosts the control plane of a cluster with this spec can use. The webhook refuses invalid
// selectors; one that is stored anyway selects no host.
func selectionOf(spec *infrav1.CapstanClusterSpec) selection {
	local := spec.LoadBalancer.Type == infrav1.LoadBalancerLocal
	if spec.ControlPlaneHostSelector == nil && !local {
		return selection{}
	}
	selector := labels.Everything()
	if spec.ControlPlaneHostSelector != nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(spec.ControlPlaneHostSelector); err != nil {
			selector = labels.Nothing()
		}
	}
	if local {
		selector = placement.Local(selector)
	}
	return selection{selector: selector, text: selector.String()}
}

// among returns how many of the hosts with these labels are selected.
func (s selection) among(hosts []labels.Set) int {
	if s.selector == nil {
		return len(hosts)
	}
	n := 0
	for _, host := range hosts {
		if s.selector.Matches(host) {
			n++
		}
	}
	return n
}

// room returns how many free hosts of a zone are left for the control plane of a cluster: hosts that it can use, and
// that neither waiting machines nor promises need. If a machine or cluster can also use other hosts, it is expected to
// take one of those.
func (p picture) room(name, cluster string) int {
	z, mine := p.zones[name], p.selections[cluster]
	all, selected := len(z.free)-z.bound, mine.among(z.free)
	for other, promised := range p.promised {
		if promised != name {
			continue
		}
		all--
		if p.selections[other].text == mine.text {
			selected--
		}
	}
	return min(all, selected)
}
