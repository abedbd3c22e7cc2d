// Package placement picks a host for a machine, and explains itself.
//
// An Index is an inventory. What its Place returns depends on the hosts in it and on the request alone. Every host that
// can't be taken is counted under its first obstacle, so the explanation adds up: "0 of 12 hosts fit: 7 claimed, 3 in
// another zone, 2 offline".
package placement

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/claim"
)

// Request says what a machine needs.
type Request struct {
	// Cluster and ControlPlane tell which machines it should be spread away from.
	Cluster      string
	ControlPlane bool
	// Zone is Machine.spec.failureDomain (IM-17). Empty: any zone.
	Zone string
	// Selector limits the hosts by their labels. Nil: all.
	Selector labels.Selector
	// Version of Kubernetes, for example v1.36.3. Empty: any.
	Version string
	// Hardware limits the hosts by what they say of themselves. The zero value: all.
	Hardware infrav1.HostRequirements
}

// Free reports whether some machine could take the host now.
func Free(host *infrav1.CapstanHost) bool {
	return Fits(host, Request{})
}

// Fits reports whether a machine that asks so could take the host now.
func Fits(host *infrav1.CapstanHost, request Request) bool {
	return firstObstacle(host, request) == none
}

func firstObstacle(host *infrav1.CapstanHost, request Request) obstacle {
	if o := closedBy(host); o != none {
		return o
	}
	return looksOf(host, host.Labels, request.Hardware).obstacleTo(request)
}

// closedBy returns what keeps every machine away from a host, whatever it asks for.
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

// looks are what requests look at in an open host.
type looks struct {
	zone     string
	labels   labels.Set
	versions []string
	suits    bool     // has the hardware that is asked for
	state    obstacle // keeps all machines away for now; none: the host is ready
}

func looksOf(host *infrav1.CapstanHost, known labels.Set, hardware infrav1.HostRequirements) looks {
	return looks{host.Spec.Zone, known, host.Status.KubernetesVersions, suits(host, hardware), stateOf(host)}
}

// suits reports whether a host says that it has the hardware. One that says nothing of it has not.
func suits(host *infrav1.CapstanHost, hardware infrav1.HostRequirements) bool {
	if hardware == (infrav1.HostRequirements{}) {
		return true
	}
	agent := host.Status.Agent
	if agent == nil {
		return false
	}
	largest := int64(0)
	for _, disk := range agent.Disks {
		largest = max(largest, disk.SizeGiB)
	}
	return (hardware.Architecture == "" || agent.Architecture == hardware.Architecture) &&
		agent.Processors >= hardware.MinProcessors && agent.MemoryMiB >= hardware.MinMemoryMiB &&
		largest >= hardware.MinDiskGiB
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

// offers reports whether the host has the version. A host that can't tell may have any.
func (l looks) offers(version string) bool {
	return version == "" || len(l.versions) == 0 ||
		slices.ContainsFunc(l.versions, func(v string) bool {
			return strings.TrimPrefix(v, "v") == strings.TrimPrefix(version, "v")
		})
}

// stateOf returns what keeps machines away from an open host for now. The host's controller alone knows whether the
// host can take a machine; until it has said so, it can't.
func stateOf(host *infrav1.CapstanHost) obstacle {
	switch ready := meta.IsStatusConditionTrue(host.Status.Conditions, infrav1.ReadyCondition); {
	case ready && claim.Carried(host) != "":
		return cleaning // which its controller has not seen yet
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
