// Package placement picks a host for a machine, and explains itself.
//
// Place is a pure function of the inventory and the request: the same input gives the same host. Every host that can't be
// taken is counted under its first obstacle, so the explanation adds up: "0 of 12 hosts fit: 7 claimed, 3 in another zone, 2 offline".
package placement

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// Request says what a machine needs.
type Request struct {
	// Namespace of the machine; hosts of other namespaces are not part of its inventory.
	Namespace string
	// Cluster and ControlPlane tell which machines it should be spread away from.
	Cluster      string
	ControlPlane bool
	// Zone is Machine.spec.failureDomain (IM-17). Empty: any zone.
	Zone string
	// Selector limits the hosts by their labels. Nil: all.
	Selector labels.Selector
	// Version of Kubernetes, for example v1.36.3. Empty: any.
	Version string
}

// Place returns the host for the request, or nil, and why. It prefers the zone with the fewest machines of the same cluster and
// role, then the host whose name comes first. The host is an element of hosts, not a copy.
func Place(hosts []infrav1.CapstanHost, request Request) (*infrav1.CapstanHost, Explanation) {
	var fit []*infrav1.CapstanHost
	inZone := map[string]int{}
	explanation := Explanation{obstacles: map[obstacle]int{}}
	for i := range hosts {
		host := &hosts[i]
		if host.Namespace != request.Namespace {
			continue
		}
		explanation.Total++
		if c := host.Spec.Claim; c != nil && !c.Released && c.Cluster == request.Cluster && c.ControlPlane == request.ControlPlane {
			inZone[host.Spec.Zone]++
		}
		if o := firstObstacle(host, request); o != none {
			explanation.obstacles[o]++
			continue
		}
		fit = append(fit, host)
	}
	explanation.Fit = len(fit)
	if len(fit) == 0 {
		return nil, explanation
	}
	return slices.MinFunc(fit, func(a, b *infrav1.CapstanHost) int {
		return cmp.Or(cmp.Compare(inZone[a.Spec.Zone], inZone[b.Spec.Zone]), cmp.Compare(a.Name, b.Name))
	}), explanation
}

// Free reports whether some machine could take the host now.
func Free(host *infrav1.CapstanHost) bool {
	return firstObstacle(host, Request{Namespace: host.Namespace}) == none
}

func firstObstacle(host *infrav1.CapstanHost, request Request) obstacle {
	switch {
	case host.Spec.Claim != nil:
		return claimed
	case !host.DeletionTimestamp.IsZero():
		return deleting
	case host.Spec.Unschedulable:
		return unschedulable
	case request.Zone != "" && host.Spec.Zone != request.Zone:
		return otherZone
	case request.Selector != nil && !request.Selector.Matches(labels.Set(host.Labels)):
		return notSelected
	case !offers(host, request.Version):
		return otherVersion
	case !meta.IsStatusConditionTrue(host.Status.Conditions, infrav1.ReadyCondition):
		// The host's controller alone knows whether the host can take a machine; until it has said so, it can't.
		return notReady(host.Status.Phase)
	default:
		return none
	}
}

// offers reports whether the host has the version. A host that can't tell may have any.
func offers(host *infrav1.CapstanHost, version string) bool {
	return version == "" || len(host.Status.KubernetesVersions) == 0 ||
		slices.ContainsFunc(host.Status.KubernetesVersions, func(v string) bool {
			return strings.TrimPrefix(v, "v") == strings.TrimPrefix(version, "v")
		})
}

func notReady(phase infrav1.HostPhase) obstacle {
	switch phase {
	case infrav1.HostOffline:
		return offline
	case infrav1.HostCleaning:
		return cleaning
	case infrav1.HostQuarantined:
		return quarantined
	default:
		return enrolling
	}
}
