// Package handover is the provider's part in moving clusters to another management cluster: it decides which hosts move
// with them and which hosts block the move. docs/moving.md describes all participants and states.
//
// clusterctl moves objects whose owner references lead to a Cluster. A CapstanHost outlives its machines, so it has no
// such owner. A claimed host has the label that makes clusterctl move it anyway (contract rules CT-95 and CT-96). A
// free host stays. The account, role and Lease of a host are recreated in the target and garbage-collected in the
// source.
//
// A host must not move before its agent knows the target. So each claimed host has the annotation that blocks a move
// (CT-106 and CT-107) until its agent has accepted the target's offer, or a person vouches for the agent. Local hosts
// are processes of one management plane and always block a move while they are claimed.
package handover

import (
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// ours is the value that we give the label and the annotation. Values that somebody else set stay.
const ours = "claimed"

// Mark updates a host's label and annotations to match its claim and its agent's report about an offer. It adds the
// annotation infrav1.HandedOverAnnotation when the agent has accepted the offer, and removes it when the agent no
// longer reports that.
func Mark(host *infrav1.CapstanHost) {
	claimed := host.Spec.Claim != nil
	switch accepted := host.Offer() != "" && host.OfferAccepted(); {
	case claimed && host.Spec.Supplier == "" && accepted && !HandedOver(host):
		host.Annotations = maps.Clone(host.Annotations)
		metav1.SetMetaDataAnnotation(&host.ObjectMeta, infrav1.HandedOverAnnotation, host.Offer())
	case !accepted && byAgent(host):
		host.Annotations = maps.Clone(host.Annotations)
		delete(host.Annotations, infrav1.HandedOverAnnotation)
	}
	host.Labels = set(host.Labels, clusterctlv1.ClusterctlMoveLabel, claimed)
	host.Annotations = set(host.Annotations, clusterctlv1.BlockMoveAnnotation,
		claimed && !HandedOver(host) && !Leaving(host))
}

// HandedOver reports whether the host is handed over. A host is handed over if infrav1.HandedOverAnnotation contains
// one of two values: the uid of the object, by which a person vouches for the agent, or the id of an offer that the
// agent still reports as accepted. The annotation has no effect in the target, where the object has another uid.
func HandedOver(host *infrav1.CapstanHost) bool {
	by := host.Annotations[infrav1.HandedOverAnnotation]
	switch {
	case host.Spec.Supplier != "" || host.UID == "" || by == "":
		return false
	case by == string(host.UID):
		return true
	}
	return by == host.Offer() && host.OfferAccepted()
}

// byAgent reports whether the agent, not a person, has handed the host over: Mark writes the id of the offer, a person
// writes the uid.
func byAgent(host *infrav1.CapstanHost) bool {
	return host.UID != "" && strings.HasPrefix(host.Annotations[infrav1.HandedOverAnnotation], string(host.UID)+"/")
}

// Leaving reports whether the mover is about to delete the object, which already exists in the target: the mover has
// replaced all annotations with its own. Such a host must not block moves: if the mover was interrupted, the host would
// block its next run forever, because the agent already reports to the target.
func Leaving(host *infrav1.CapstanHost) bool {
	_, marked := host.Annotations[clusterctlv1.DeleteForMoveAnnotation]
	return marked && host.Spec.Supplier == "" && host.OfferAccepted()
}

// Offer makes an offer to the host's agent (see infrav1.OfferAnnotation). If the host is claimed, it blocks moves until
// the agent has accepted the offer. Offer removes annotations that an earlier mover left.
func Offer(host *infrav1.CapstanHost, id string) {
	host.Annotations = maps.Clone(host.Annotations)
	delete(host.Annotations, clusterctlv1.DeleteForMoveAnnotation)
	delete(host.Annotations, infrav1.HandedOverAnnotation)
	metav1.SetMetaDataAnnotation(&host.ObjectMeta, infrav1.OfferAnnotation, id)
	host.Annotations = set(host.Annotations, clusterctlv1.BlockMoveAnnotation, host.Spec.Claim != nil)
}

// CallOff withdraws the host's offer: the host is no longer handed over, and blocks moves again if it is claimed.
func CallOff(host *infrav1.CapstanHost) {
	host.Annotations = maps.Clone(host.Annotations)
	delete(host.Annotations, infrav1.OfferAnnotation)
	delete(host.Annotations, infrav1.HandedOverAnnotation)
	host.Annotations = set(host.Annotations, clusterctlv1.BlockMoveAnnotation, host.Spec.Claim != nil)
}

// Held reports whether the host blocks moves because of an annotation that we set.
func Held(host *infrav1.CapstanHost) bool {
	return host.Annotations[clusterctlv1.BlockMoveAnnotation] == ours
}

// set adds or removes our value of a key.
func set(all map[string]string, key string, want bool) map[string]string {
	value, has := all[key]
	if want == has || has && value != ours {
		return all
	}
	all = maps.Clone(all)
	switch {
	case !want:
		delete(all, key)
		return all
	case all == nil:
		all = map[string]string{}
	}
	all[key] = ours
	return all
}
