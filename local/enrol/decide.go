package enrol

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/enrolment"
	"github.com/capstan-dev/capstan/local/credential"
)

// Annotations of a CapstanHost that enrolled with a credential. The annotations move with the host to another
// management cluster.
const (
	// KeyAnnotation holds the hash of the host's own key, which identifies the host.
	KeyAnnotation = "infrastructure.capstan.dev/enrolment-key"
	// MachineAnnotation holds the hash of what identifies the host's hardware.
	MachineAnnotation = "infrastructure.capstan.dev/enrolment-machine"
)

// claimant is a computer that wants to become a host.
type claimant struct {
	host    string // the name that it asks for; empty: any
	key     string // the hash of its own key, which it has proved to hold
	machine string // the hash that it reports for its hardware
}

// verdict says how to answer a claimant.
type verdict int

const (
	register verdict = iota // there is no such host: create it
	adopt                   // somebody has registered it, and no computer has enrolled as it yet
	again                   // it is the same computer
	replace                 // it is the same computer, reinstalled
)

func refuse(reason, format string, args ...any) *enrolment.Refusal {
	return &enrolment.Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// nameOf returns the name of the host that a computer may become with a credential. Pure.
func nameOf(c *credential.Credential, r enrolment.Request) (string, *enrolment.Refusal) {
	got := cmp.Or(r.Host, c.OnlyName(), r.Hostname)
	switch {
	case got == "":
		return "", refuse(enrolment.ReasonName, "choose a name for the host: capstan-agent enroll --name NAME")
	case len(validation.IsDNS1123Label(got)) > 0:
		return "", refuse(
			enrolment.ReasonName,
			"%q can't be the name of a host: use at most 63 lower case letters, digits and dashes; choose one with --name",
			got,
		)
	case !c.Matches(got):
		return "", refuse(
			enrolment.ReasonName,
			"the credential does not allow the name %s: choose another one with --name, or create another credential",
			got,
		)
	}
	return got, nil
}

// decide decides about a claimant that has proved to hold the credential. existing is the host with the claimant's
// name, or nil. keyOwner is the name of the host in the namespace that already has the claimant's key, or "". Pure.
func decide(
	c *credential.Credential, who claimant, existing *infrav1.CapstanHost, keyOwner string, now time.Time,
) (verdict, *enrolment.Refusal) {
	known := c.UsedBy(who.host, who.key)
	switch state := c.StateAt(now); {
	case state == credential.Expired:
		return 0, refuse(
			enrolment.ReasonExpired,
			"the credential has expired: create another one with capstan host token create",
		)
	case state == credential.UsedUp && !known:
		return 0, refuse(enrolment.ReasonUsedUp,
			"the credential is used up: create another one with capstan host token create, with --uses for several hosts")
	case keyOwner != "" && keyOwner != who.host:
		return 0, refuse(enrolment.ReasonTaken,
			"this computer already is host %s: delete that CapstanHost first, or enroll with --name %s", keyOwner, keyOwner)
	case existing == nil:
		return register, nil
	}
	return onto(c, who, existing)
}

// onto decides about a claimant whose host exists.
func onto(c *credential.Credential, who claimant, there *infrav1.CapstanHost) (verdict, *enrolment.Refusal) {
	key, claim := there.Annotations[KeyAnnotation], there.Spec.Claim
	switch {
	case there.Spec.Supplier != "":
		return 0, refuse(
			enrolment.ReasonTaken,
			"%s is a local host of the plane: choose another name with --name",
			who.host,
		)
	case there.DeletionTimestamp != nil:
		return 0, &enrolment.Refusal{Reason: enrolment.ReasonTaken, Retry: true,
			Message: "host " + who.host + " is being deleted: try again when it is gone"}
	case c.Zone != "" && c.Zone != there.Spec.Zone:
		return 0, refuse(enrolment.ReasonZone, "host %s is in zone %s, but the credential is for zone %s", who.host,
			there.Spec.Zone, c.Zone)
	case key == who.key:
		return again, nil
	case key == "" && there.Status.Agent == nil && claim == nil:
		return adopt, nil
	case key == "":
		return 0, refuse(
			enrolment.ReasonTaken,
			"host %s enrolled without a credential, so nothing proves that it is this computer: delete the CapstanHost, or "+
				"choose another name with --name",
			who.host,
		)
	case there.Annotations[MachineAnnotation] != who.machine:
		return 0, refuse(enrolment.ReasonTaken,
			"host %s is another computer: choose another name with --name, or delete that CapstanHost", who.host)
	case !c.Reenroll:
		return 0, refuse(enrolment.ReasonTaken, "host %s has lost its key, for example by a reinstallation: delete "+
			"the CapstanHost, or create a credential with --reenroll", who.host)
	case claim != nil && !claim.Released:
		return 0, &enrolment.Refusal{Reason: enrolment.ReasonInUse, Retry: true, Message: fmt.Sprintf(
			"machine %s is on host %s: delete its Machine before the host gets another identity",
			claim.Machine,
			who.host,
		)}
	}
	return replace, nil
}
