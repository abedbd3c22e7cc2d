package v1beta2

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// HandedOverAnnotation on an owned CapstanHost says that its agent goes along when the object moves to another
// management cluster. Without it a claimed host holds such a move. The controller sets it to the id of the offer that
// the agent has accepted, and removes it when the agent can't go along any more. A person who vouches for the agent
// sets it to the uid of the object. In the target the object has another uid, and so have its offers: the annotation
// counts for one move. docs/moving.md has all of the hand-over.
const HandedOverAnnotation = "infrastructure.capstan.dev/handed-over"

// OfferAnnotation on an owned CapstanHost tells its agent that Secret NAME-handover has an offer of another management
// cluster. Its value is the offer's id: the uid of the object, a slash, and something that no other offer has. So it
// means nothing on the object's copy in the target. Removing it calls the offer off.
const OfferAnnotation = "infrastructure.capstan.dev/hand-over-offer"

// OfferSecretSuffix is appended to a host's name to give the name of the Secret with an offer.
const OfferSecretSuffix = "-handover"

// Keys of the Secret with an offer.
const (
	// OfferIDKey holds the id, as OfferAnnotation has it.
	OfferIDKey = "id"
	// OfferServerKey holds the URL of the target's API server, as the host reaches it.
	OfferServerKey = "server"
	// OfferCAKey holds the certificates that sign the server's, in PEM.
	OfferCAKey = "ca.crt"
	// OfferTokenKey holds a token of the host's ServiceAccount in the target.
	OfferTokenKey = "token"
	// OfferEnrolmentKey holds the URL of the target's enrolment server, which is on the same host as its API server and
	// has a certificate of the same authority. It is optional: only planes have such a server.
	OfferEnrolmentKey = "enrolment"
	// OfferTargetKey holds the uid of the target's Namespace kube-system, for those who make offers: it tells whether
	// there is one of the same target already.
	OfferTargetKey = "target"
)

// HandOverReport is what the agent says about the offer of another management cluster.
type HandOverReport struct {
	// offer is the id of the offer that this is about.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9:/._=+-]+$`
	Offer string `json:"offer,omitempty"`

	// accepted is true when the agent has a token of its own in the target, on disk, and goes along when the host moves.
	// +optional
	Accepted bool `json:"accepted,omitempty"`

	// message says why the agent has not accepted the offer, or does not go along any more; it tries again.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// Offer returns the id of the offer that the host's agent has now; empty without one, or if it was made to the object
// that this one is a copy of.
func (h *CapstanHost) Offer() string {
	if id := h.Annotations[OfferAnnotation]; h.owns(id) {
		return id
	}
	return ""
}

// OfferID returns the id of an offer to a host: its uid, a slash, something that no other offer has, a dot, and a
// digest of where the target is. Who may write Secrets and no CapstanHosts can't lead an agent to another place by it.
func OfferID(host types.UID, unique, server, ca string) string {
	return string(host) + "/" + unique + "." + offerDigest(server, ca)
}

// OfferLeadsTo reports whether an offer was made with a target's server and certificates. Earlier versions have made
// offers whose ids have no digest: they lead anywhere.
func OfferLeadsTo(id, server, ca string) bool {
	_, digest, has := strings.Cut(id, ".")
	return !has || digest == offerDigest(server, ca)
}

func offerDigest(server, ca string) string {
	sum := sha256.Sum256([]byte(strings.TrimRight(strings.TrimSpace(server), "/") + "\x00" + strings.TrimSpace(ca)))
	return hex.EncodeToString(sum[:16])
}

// OfferAccepted reports whether the agent of this object reports that it goes along: by the offer that there is now, or
// by one that the mover has removed together with all other annotations.
func (h *CapstanHost) OfferAccepted() bool {
	if h.Status.Agent == nil || h.Status.Agent.HandOver == nil {
		return false
	}
	report, now := h.Status.Agent.HandOver, h.Annotations[OfferAnnotation]
	return report.Accepted && h.owns(report.Offer) && slices.Contains([]string{"", report.Offer}, now)
}

// owns reports whether an offer was made to this object.
func (h *CapstanHost) owns(offer string) bool {
	uid, unique, ok := strings.Cut(offer, "/")
	return ok && h.UID != "" && uid == string(h.UID) && unique != ""
}
