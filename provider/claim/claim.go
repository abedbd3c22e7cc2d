// Package claim interprets the claim of a host: which host a machine holds, the provider id of its instance, and what
// the agent reported about it. All functions are pure; the reconcilers do the writing.
package claim

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// uidPart is how many characters of a machine's uid the provider id contains, to distinguish the machines that use one
// host.
const uidPart = 8

// ProviderID returns the identifier of a machine's instance on a host: capstan://<namespace>/<host>/<first 8 characters
// of the machine's uid>.
func ProviderID(namespace, host string, machine types.UID) string {
	return fmt.Sprintf("capstan://%s/%s/%s", namespace, host, machine[:min(len(machine), uidPart)])
}

// New returns the claim of a machine to a host. The claim lets the agent start at once: the bootstrap data follows in
// the same reconcile, and the agent waits for data marked with this claim. Setting BootstrapReady later would cost
// another write for each machine.
func New(host *infrav1.CapstanHost, capstan *infrav1.CapstanMachine, machine *clusterv1.Machine) *infrav1.HostClaim {
	return &infrav1.HostClaim{
		Machine:           capstan.Name,
		MachineUID:        string(capstan.UID),
		Cluster:           machine.Spec.ClusterName,
		ProviderID:        ProviderID(host.Namespace, host.Name, capstan.UID),
		Hostname:          capstan.Name,
		KubernetesVersion: machine.Spec.Version,
		ControlPlane:      util.IsControlPlaneMachine(machine),
		BootstrapReady:    true,
	}
}

// InstanceData returns the values that the bootstrap data may refer to. The host must have a claim.
func InstanceData(host *infrav1.CapstanHost) infrav1.InstanceData {
	c := host.Spec.Claim
	return infrav1.InstanceData{
		InstanceID:    strings.TrimPrefix(c.ProviderID, "capstan://"),
		LocalHostname: c.Hostname,
		ProviderID:    c.ProviderID,
		Host:          host.Name,
		Zone:          host.Spec.Zone,
	}
}

// Held returns the hosts that a machine holds. The one to keep comes first. A machine holds several hosts only if two
// controllers ran at once.
func Held(hosts []*infrav1.CapstanHost, capstan *infrav1.CapstanMachine) []*infrav1.CapstanHost {
	var held []*infrav1.CapstanHost
	for _, host := range hosts {
		if Holds(host, capstan) {
			held = append(held, host)
		}
	}
	slices.SortFunc(held, func(a, b *infrav1.CapstanHost) int {
		return cmp.Or(
			-compareBool(a.Spec.Claim.ProviderID == capstan.Spec.ProviderID, b.Spec.Claim.ProviderID == capstan.Spec.ProviderID),
			compareBool(a.Spec.Claim.Released, b.Spec.Claim.Released),
			-compareBool(a.Spec.Claim.BootstrapReady, b.Spec.Claim.BootstrapReady),
			cmp.Compare(a.Name, b.Name),
		)
	})
	return held
}

// Holds reports whether the host's claim is the machine's. The claim and the machine must be in the same namespace, and
// have either the same machine uid, or the same name and provider id: a machine that was moved to another management
// cluster has a new uid, but keeps namespace, name and spec (contract rule IM-63). A provider id alone proves nothing,
// because anybody who may create a CapstanMachine can choose it.
func Holds(host *infrav1.CapstanHost, capstan *infrav1.CapstanMachine) bool {
	c := host.Spec.Claim
	switch {
	case c == nil || host.Namespace != capstan.Namespace:
		return false
	case c.MachineUID == string(capstan.UID):
		return true
	default:
		return c.Machine == capstan.Name && c.ProviderID != "" && c.ProviderID == capstan.Spec.ProviderID
	}
}

// HostOf returns the name of the host in a provider id, or "" if the id names no host in this namespace.
func HostOf(providerID, namespace string) string {
	rest, ours := strings.CutPrefix(providerID, "capstan://"+namespace+"/")
	host, _, whole := strings.Cut(rest, "/")
	if !ours || !whole {
		return ""
	}
	return host
}

// Bootstrap returns the agent's report about the bootstrap data of the host's claim, or nil if there is none yet.
// Reports about earlier claims do not count.
func Bootstrap(host *infrav1.CapstanHost) *infrav1.BootstrapReport {
	if host.Spec.Claim == nil || host.Status.Agent == nil {
		return nil
	}
	if r := host.Status.Agent.Bootstrap; r != nil && r.ProviderID == host.Spec.Claim.ProviderID {
		return r
	}
	return nil
}

// Cleaning returns the agent's report about cleaning after the host's claim, or nil if there is none yet.
func Cleaning(host *infrav1.CapstanHost) *infrav1.CleaningReport {
	if host.Spec.Claim == nil || host.Status.Agent == nil {
		return nil
	}
	if r := host.Status.Agent.Cleaning; r != nil && r.ProviderID == host.Spec.Claim.ProviderID {
		return r
	}
	return nil
}

// Abandoned reports whether an administrator has given up waiting until the host is clean after its claim (see
// infrav1.AbandonAnnotation). It is always false for supplied hosts, which are destroyed instead.
func Abandoned(host *infrav1.CapstanHost) bool {
	c := host.Spec.Claim
	return c != nil && c.Released && host.Spec.Supplier == "" &&
		host.Annotations[infrav1.AbandonAnnotation] == c.ProviderID
}

// Accepted reports whether somebody has declared the host clean after its claim (see infrav1.AcceptAnnotation). It is
// always false for supplied hosts.
func Accepted(host *infrav1.CapstanHost) bool {
	c := host.Spec.Claim
	return c != nil && c.Released && host.Spec.Supplier == "" && host.Annotations[infrav1.AcceptAnnotation] == c.ProviderID
}

// Carried returns the provider id of the machine that is still on an owned host without a claim, according to the
// host's agent, or "" if there is no such machine. This happens if the claim ended while the agent was away, because
// somebody accepted the host as clean or registered it anew. It also happens if the management cluster was restored
// from a backup older than the claim.
func Carried(host *infrav1.CapstanHost) string {
	if host.Spec.Claim != nil || host.Spec.Supplier != "" || host.Status.Agent == nil {
		return ""
	}
	return host.Status.Agent.Carries
}

// Proof returns the proof of cleanness that a claim made now will require after it ends. byDefault applies to hosts
// whose spec doesn't say. The result is "" for supplied hosts.
func Proof(host *infrav1.CapstanHost, byDefault infrav1.CleaningProof) infrav1.CleaningProof {
	if host.Spec.Supplier != "" {
		return "" // the host is destroyed and recreated
	}
	return cmp.Or(host.Spec.Cleaning.Proof, byDefault)
}

// Bundles returns where the host gets the programs of a node from, for a claim made now. byDefault applies to hosts
// whose spec doesn't say. The result is empty for supplied hosts, whose supplier brings the programs.
func Bundles(host *infrav1.CapstanHost, byDefault infrav1.BundlePolicy) infrav1.BundlePolicy {
	policy := host.Spec.Bundles
	switch {
	case host.Spec.Supplier != "":
		return infrav1.BundlePolicy{}
	case policy.Source == "":
		policy = byDefault
	}
	return *policy.DeepCopy()
}

// Verdict is what is known about whether a released host is clean.
type Verdict int

// Verdicts.
const (
	// Unknown: the agent has not reported the end of the cleaning yet.
	Unknown Verdict = iota
	// Clean: the agent has provided the proof that the claim requires.
	Clean
	// Left: the agent reported leftovers.
	Left
	// NotCompared: the agent found nothing, but did not compare the host with the baseline of the claim.
	NotCompared
	// ToReimage: somebody must confirm that the host was reinstalled.
	ToReimage
)

// Judge returns whether an owned host is clean after its claim.
func Judge(host *infrav1.CapstanHost) Verdict {
	report := Cleaning(host)
	switch c := host.Spec.Claim; {
	case Accepted(host):
		return Clean
	case report == nil || !report.Done:
		return Unknown
	case len(report.Leftovers) > 0:
		return Left
	case c.Proof == infrav1.ProofReimage:
		return ToReimage
	case c.Proof == infrav1.ProofCompare && (c.Baseline == "" || report.Baseline != c.Baseline) && bootstrapped(host):
		return NotCompared
	default:
		return Clean
	}
}

// bootstrapped reports whether the machine may have run on the host at all. If not, there is no baseline to compare
// with.
func bootstrapped(host *infrav1.CapstanHost) bool {
	return host.Spec.Claim.Baseline != "" || Bootstrap(host) != nil
}

// Address returns the address that the host's agent reported, or "" if it reported none or one that other computers
// can't use. Agents are only trusted about their own host, so anything but a global unicast IP address without a zone
// is rejected.
func Address(host *infrav1.CapstanHost) string {
	if host.Status.Agent == nil {
		return ""
	}
	a, err := netip.ParseAddr(host.Status.Agent.Address)
	if err != nil || !a.IsGlobalUnicast() || a.Zone() != "" {
		return ""
	}
	return a.String()
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}
