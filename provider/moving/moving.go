// Package moving decides what of the inventory goes along when clusters move to another management cluster, and what holds such a move.
//
// clusterctl takes what leads to a Cluster by owner references. A CapstanHost leads to none: it outlives the machines on it. So a host that is claimed
// carries clusterctl's label for objects that move all the same (CT-95, CT-96); one that is free stays. What belongs to a host, its account, role and Lease, is made
// again in the target and collected in the source.
//
// A host must not change sides before its agent knows where to: the annotation that holds a move (CT-106, CT-107) is on each claimed host until the agent has accepted the
// offer of the target, or somebody has said that the agent was handed over. Local hosts are processes of one management plane; they hold a move for good.
package moving

import (
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// ours is the value of label and annotation as we set them; what somebody else has set stays.
const ours = "claimed"

// Mark brings a host's label and annotations in line with its claim, and with what its agent says about the offer of another management cluster: the word that it goes along is
// taken back when the agent does not say so any more.
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
	host.Annotations = set(host.Annotations, clusterctlv1.BlockMoveAnnotation, claimed && !HandedOver(host) && !Leaving(host))
}

// HandedOver reports whether the agent of this object goes along: somebody has vouched for it, by the uid, or it has accepted the offer whose id stands there, and says so still. In
// the target the object is another one, with another uid: there the word doesn't count any more.
func HandedOver(host *infrav1.CapstanHost) bool {
	word := host.Annotations[infrav1.HandedOverAnnotation]
	switch {
	case host.Spec.Supplier != "" || host.UID == "" || word == "":
		return false
	case word == string(host.UID):
		return true
	}
	return word == host.Offer() && host.OfferAccepted()
}

// byAgent reports whether Mark has set the word that the agent of this object goes along: it is the id of an offer then. Somebody who vouches writes the uid.
func byAgent(host *infrav1.CapstanHost) bool {
	return host.UID != "" && strings.HasPrefix(host.Annotations[infrav1.HandedOverAnnotation], string(host.UID)+"/")
}

// Leaving reports whether the mover is about to delete the object, which is in the target already: it has replaced all annotations by its mark. If it ended just then, holding
// the next run would hold it for ever, for the agent has gone ahead.
func Leaving(host *infrav1.CapstanHost) bool {
	_, marked := host.Annotations[clusterctlv1.DeleteForMoveAnnotation]
	return marked && host.Spec.Supplier == "" && host.OfferAccepted()
}

// Offer tells the host's agent of an offer, see infrav1.OfferAnnotation. The host holds moves from then on, until the agent has accepted it; what an earlier mover has left is removed.
func Offer(host *infrav1.CapstanHost, id string) {
	host.Annotations = maps.Clone(host.Annotations)
	delete(host.Annotations, clusterctlv1.DeleteForMoveAnnotation)
	delete(host.Annotations, infrav1.HandedOverAnnotation)
	metav1.SetMetaDataAnnotation(&host.ObjectMeta, infrav1.OfferAnnotation, id)
	host.Annotations = set(host.Annotations, clusterctlv1.BlockMoveAnnotation, host.Spec.Claim != nil)
}

// Withdraw takes back the offer that the host has, and the word that its agent goes along.
func Withdraw(host *infrav1.CapstanHost) {
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
