// Package placement picks a host for a machine and explains the result.
//
// An Index is an inventory. The result of its method Place depends only on the hosts in it and on the request. Each
// host that can't be taken is counted once, under its first obstacle, so the explanation adds up: "0 of 12 hosts fit: 7
// claimed, 3 in another zone, 2 offline".
package placement

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/claim"
)

// Request describes the host that a machine needs.
type Request struct {
	// Cluster and ControlPlane identify the machines to spread this one away from.
	Cluster      string
	ControlPlane bool
	// Zone is Machine.spec.failureDomain (contract rule IM-17). Empty means any zone.
	Zone string
	// Selector limits the hosts by their labels. Nil matches all hosts.
	Selector labels.Selector
	// Version is the version of Kubernetes, for example v1.36.3. Empty means any.
	Version string
	// Hardware limits the hosts by the hardware that their agents report. The zero value matches all hosts.
	Hardware infrav1.HostRequirements
}

// Free reports whether a machine without special requirements could take the host now.
func Free(host *infrav1.CapstanHost) bool {
	return Fits(host, Request{})
}

// Fits reports whether a machine with this request could take the host now.
func Fits(host *infrav1.CapstanHost, request Request) bool {
	return firstObstacle(host, request) == none
}

func firstObstacle(host *infrav1.CapstanHost, request Request) obstacle {
	if o := closedBy(host); o != none {
		return o
	}
	return looksOf(host, host.Labels, request.Hardware).obstacleTo(request)
}

// closedBy returns the obstacle that keeps all machines away from a host, whatever they request, or none.
func closedBy(host *infrav1.CapstanHost) obstacle {
	switch {
	case host.Spec.Claim != nil:
		return claimed
	case !host.DeletionTimestamp.IsZero():
		return deleting
	case host.Spec.Closed():
		return unschedulable
	default:
		return none
	}
}

// looks holds the properties of an open host that requests can ask for.
type looks struct {
	zone     string
	labels   labels.Set
	versions []string
	suits    bool     // has the requested hardware
	state    obstacle // keeps all machines away for now; none if the host is ready
}

func looksOf(host *infrav1.CapstanHost, known labels.Set, hardware infrav1.HostRequirements) looks {
	return looks{host.Spec.Zone, known, host.Status.KubernetesVersions, hardware.MetBy(host.Status.Agent), stateOf(host)}
}

func (l looks) obstacleTo(request Request) obstacle {
	switch {
	case request.Zone != "" && l.zone != request.Zone:
		return otherZone
	case request.Selector != nil && !request.Selector.Matches(l.labels):
		return notSelected
	case !l.suits:
		return otherHardware
	case !l.offers(request.Version):
		return otherVersion
	default:
		return l.state
	}
}

// offers reports whether the host has the version. A host that reports no versions may have any.
func (l looks) offers(version string) bool {
	return version == "" || len(l.versions) == 0 ||
		slices.ContainsFunc(l.versions, func(v string) bool {
			return strings.TrimPrefix(v, "v") == strings.TrimPrefix(version, "v")
		})
}

// stateOf returns what keeps machines away from an open host for now, or none. Only the host's controller knows whether
// the host can take a machine; until it says so in condition Ready, the host can't.
func stateOf(host *infrav1.CapstanHost) obstacle {
	switch ready := meta.IsStatusConditionTrue(host.Status.Conditions, infrav1.ReadyCondition); {
	case ready && claim.Carried(host) != "":
		return cleaning // its controller has not seen this yet
	case ready:
		return none
	}
	switch host.Status.Phase {
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
