// Package claim knows what the claim of a host means: which host a machine holds, what its instance is called, and what
// the agent reported about it. Pure functions; the reconcilers write.
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

// uidPart is how many characters of a machine's uid tell two uses of one host apart.
const uidPart = 8

// ProviderID returns the identifier of the instance that a machine makes of a host: capstan://<namespace>/<host>/<first
// 8 of uid>.
func ProviderID(namespace, host string, machine types.UID) string {
	return fmt.Sprintf("capstan://%s/%s/%s", namespace, host, machine[:min(len(machine), uidPart)])
}

// New returns the claim of a machine to a host. It lets the agent begin at once: the bootstrap data follows within the
// same pass, and the agent waits for data that is marked with this claim. Saying so later, when the data is there,
// would cost a write for each machine.
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

// InstanceData returns what the bootstrap data of the host's claim may refer to.
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

// Held returns the hosts that a machine holds, the one to keep first. There is more than one only if two controllers
// ran at once.
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

// Holds reports whether the host's claim is the machine's. It is by the machine's uid. A machine that was moved to
// another management cluster has a new uid, but keeps namespace, name and spec (IM-63): its claim has all of these.
// A providerID alone proves nothing: anybody who may create a CapstanMachine could write one into it.
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

// HostOf returns the name of the host that an instance of a namespace is on, by its provider id; empty: it names none.
func HostOf(providerID, namespace string) string {
	rest, ours := strings.CutPrefix(providerID, "capstan://"+namespace+"/")
	host, _, whole := strings.Cut(rest, "/")
	if !ours || !whole {
		return ""
	}
	return host
}

// Bootstrap returns what the agent reported about the bootstrap data of the host's claim, or nil: nothing yet. Reports
// about earlier claims do not count.
func Bootstrap(host *infrav1.CapstanHost) *infrav1.BootstrapReport {
	if host.Spec.Claim == nil || host.Status.Agent == nil {
		return nil
	}
	if r := host.Status.Agent.Bootstrap; r != nil && r.ProviderID == host.Spec.Claim.ProviderID {
		return r
	}
	return nil
}

// Cleaning returns what the agent reported about cleaning after the host's claim, or nil: nothing yet.
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
// infrav1.AbandonAnnotation). Supplied hosts are destroyed instead, so it doesn't count for them.
func Abandoned(host *infrav1.CapstanHost) bool {
	c := host.Spec.Claim
	return c != nil && c.Released && host.Spec.Supplier == "" &&
		host.Annotations[infrav1.AbandonAnnotation] == c.ProviderID
}

// Accepted reports whether somebody has said that the host is clean after its claim (see infrav1.AcceptAnnotation).
func Accepted(host *infrav1.CapstanHost) bool {
	c := host.Spec.Claim
	return c != nil && c.Released && host.Spec.Supplier == "" && host.Annotations[infrav1.AcceptAnnotation] == c.ProviderID
}

// Carried returns the provider id of the machine that an owned host without claim still carries, as its agent says;
// empty: none. Its claim ended while the agent was away: somebody accepted it, or registered the host anew. Or the
// claim is younger than the management cluster, which was restored from a backup.
func Carried(host *infrav1.CapstanHost) string {
	if host.Spec.Claim != nil || host.Spec.Supplier != "" || host.Status.Agent == nil {
		return ""
	}
	return host.Status.Agent.Carries
}

// Proof returns what proves that a host is clean after a claim that is made now. byDefault is for hosts that don't say
// it.
func Proof(host *infrav1.CapstanHost, byDefault infrav1.CleaningProof) infrav1.CleaningProof {
	if host.Spec.Supplier != "" {
		return "" // it is destroyed and made again
	}
	return cmp.Or(host.Spec.Cleaning.Proof, byDefault)
}

// Verdict says whether a released host is clean.
type Verdict int

// Verdicts.
const (
	// Unknown: the agent has not said yet.
	Unknown Verdict = iota
	// Clean: it is proved, as far as the claim asks for it.
	Clean
	// Left: the agent names what is left.
	Left
	// NotCompared: nothing was found, but the agent has not compared with the baseline of the claim.
	NotCompared
	// ToReimage: somebody has to say that the host was installed anew.
	ToReimage
)

// Judge returns what is known about an owned host after its claim.
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

// bootstrapped reports whether the machine may have been on the host at all: a claim that ended before had no baseline.
func bootstrapped(host *infrav1.CapstanHost) bool {
	return host.Spec.Claim.Baseline != "" || Bootstrap(host) != nil
}

// Address returns the address that the host's agent reported, or nothing if it reported none, or one that no other
// computer can use. The agent is trusted for its own host only, so what is no plain unicast IP address is not passed
// on.
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
