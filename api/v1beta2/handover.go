package v1beta2

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// HandedOverAnnotation on an owned CapstanHost says that its agent moves with the object to another management cluster.
// A claimed host without it blocks such a move. The controller sets it to the id of the offer that the agent has
// accepted, and removes it when the agent can no longer move. A person who vouches for the agent sets it to the uid of
// the object. The object has another uid in the target, so the annotation is valid for one move only. docs/moving.md
// describes the hand-over.
const HandedOverAnnotation = "infrastructure.capstan.dev/handed-over"

// OfferAnnotation on an owned CapstanHost tells its agent that Secret NAME-handover has an offer of another management
// cluster. Its value is the offer's id (see OfferID): the uid of the object, a slash, a unique part, a dot, and a
// digest of the target's server and certificates. Because of the uid, the id is invalid on the object's copy in the
// target. Removing the annotation withdraws the offer.
const OfferAnnotation = "infrastructure.capstan.dev/hand-over-offer"

// OfferSecretSuffix follows a host's name in the name of the Secret with an offer.
const OfferSecretSuffix = "-handover"

// Keys of the Secret with an offer.
const (
	// OfferIDKey holds the id that OfferAnnotation has.
	OfferIDKey = "id"
	// OfferServerKey holds the URL of the target's API server, as the host reaches it.
	OfferServerKey = "server"
	// OfferCAKey holds the certificates that sign the server's certificate, in PEM.
	OfferCAKey = "ca.crt"
	// OfferTokenKey holds a token of the host's ServiceAccount in the target.
	OfferTokenKey = "token"
	// OfferEnrolmentKey holds the URL of the target's enrolment server, which is on the same host as its API server and
	// has a certificate of the same authority. It is optional: only planes have such a server.
	OfferEnrolmentKey = "enrolment"
	// OfferTargetKey holds the uid of the target's Namespace kube-system. Whoever makes an offer uses it to find an
	// earlier offer of the same target.
	OfferTargetKey = "target"
)

// HandOverReport is the agent's answer to the offer of another management cluster.
type HandOverReport struct {
	// offer is the id of the offer that this report is about.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9:/._=+-]+$`
	Offer string `json:"offer,omitempty"`

	// accepted is true once the agent has stored its own token for the target on disk and is ready to move with the host.
	// +optional
	Accepted bool `json:"accepted,omitempty"`

	// message says why the agent has not accepted the offer, or can no longer move with the host. The agent tries again.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// Offer returns the id of the current offer to the host's agent. It returns an empty string if there is none, or if the
// offer was made to the object that this one was copied from.
func (h *CapstanHost) Offer() string {
	if id := h.Annotations[OfferAnnotation]; h.owns(id) {
		return id
	}
	return ""
}

// OfferID returns the id of an offer to a host: its uid, a slash, a unique part, a dot, and a digest of the target's
// server and certificates. Because of the digest, somebody who may write Secrets but not CapstanHosts can't redirect an
// agent.
func OfferID(host types.UID, unique, server, ca string) string {
	return string(host) + "/" + unique + "." + offerDigest(server, ca)
}

// OfferLeadsTo reports whether an offer was made with a target's server and certificates. Ids that earlier versions
// made have no digest and match every target.
func OfferLeadsTo(id, server, ca string) bool {
	_, digest, has := strings.Cut(id, ".")
	return !has || digest == offerDigest(server, ca)
}

func offerDigest(server, ca string) string {
	sum := sha256.Sum256([]byte(strings.TrimRight(strings.TrimSpace(server), "/") + "\x00" + strings.TrimSpace(ca)))
	return hex.EncodeToString(sum[:16])
}

// OfferAccepted reports whether the host's agent has accepted the current offer, or an offer that the mover has removed
// together with all other annotations.
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
