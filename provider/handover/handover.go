// Package handover is the provider's part of a hand-over: it decides which hosts go along when clusters move to another
// management cluster, and which hold such a move. docs/moving.md has all actors and states.
//
// clusterctl takes what leads to a Cluster by owner references. A CapstanHost leads to none: it outlives the machines
// on it. So a host that a machine claims carries clusterctl's label for objects that move all the same (CT-95, CT-96);
// a free host stays. What belongs to a host, its account, role and Lease, is made again in the target and collected in
// the source.
//
// A host must not change sides before its agent knows where to: each claimed host carries the annotation that holds a
// move (CT-106, CT-107) until its agent has accepted the offer of the target, or somebody vouches for the agent. Local
// hosts are processes of one management plane; they hold a move for good.
package handover

import (
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// ours is the value of label and annotation as we set them; we leave what somebody else has set.
const ours = "claimed"

// Mark brings a host's label and annotations in line with its claim, and with what its agent reports about an offer. It
// sets the annotation that the host is handed over when the agent has accepted the offer, and removes it when the agent
// does not report that any more.
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

// HandedOver reports whether the host is handed over: somebody vouches for its agent, by the uid of the object, or the
// agent has accepted the offer whose id stands there, and reports so still. In the target the object has another uid:
// there the annotation doesn't count any more.
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

// byAgent reports whether the agent has handed the host over, and not a person: Mark writes the id of the offer, a
// person the uid.
func byAgent(host *infrav1.CapstanHost) bool {
	return host.UID != "" && strings.HasPrefix(host.Annotations[infrav1.HandedOverAnnotation], string(host.UID)+"/")
}

// Leaving reports whether the mover is about to delete the object, which is in the target already: it has replaced all
// annotations by its mark. If the mover ended just then, holding its next run would hold it for ever, for the agent has
// gone ahead.
func Leaving(host *infrav1.CapstanHost) bool {
	_, marked := host.Annotations[clusterctlv1.DeleteForMoveAnnotation]
	return marked && host.Spec.Supplier == "" && host.OfferAccepted()
}

// Offer makes an offer to the host's agent, see infrav1.OfferAnnotation. The host holds moves from then on, until the
// agent has accepted it. Offer removes what an earlier mover has left.
func Offer(host *infrav1.CapstanHost, id string) {
	host.Annotations = maps.Clone(host.Annotations)
	delete(host.Annotations, clusterctlv1.DeleteForMoveAnnotation)
	delete(host.Annotations, infrav1.HandedOverAnnotation)
	metav1.SetMetaDataAnnotation(&host.ObjectMeta, infrav1.OfferAnnotation, id)
	host.Annotations = set(host.Annotations, clusterctlv1.BlockMoveAnnotation, host.Spec.Claim != nil)
}

// CallOff calls off the offer that the host has: it is not handed over any more, and holds moves again.
func CallOff(host *infrav1.CapstanHost) {
	host.Annotations = maps.Clone(host.Annotations)
	delete(host.Annotations, infrav1.OfferAnnotation)
	delete(host.Annotations, infrav1.HandedOverAnnotation)
	host.Annotations = set(host.Annotations, clusterctlv1.BlockMoveAnnotation, host.Spec.Claim != nil)
}

// Held reports whether the host holds a move on our behalf.
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
