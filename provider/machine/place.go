package machine

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/cluster-api/util"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/placement"
	"github.com/capstan-dev/capstan/provider/step"
)

// place ends the pass if the machine has no host and none fits now; the pool wakes the machine later. The host itself
// is picked when it is claimed. If the machine may already have a host, place continues and claimHost finds out.
func (r *Reconciler) place(ctx context.Context, s *scope) (step.Answer, error) {
	if s.host != nil || hadHost(s.capstan) != "" || r.Hosts.Lost(s.capstan) != nil {
		return step.Next(), nil
	}
	request, obstacle := plan(s)
	if obstacle == nil {
		r.Metrics.Wants(s.capstan)
		if fits, why := r.Hosts.Place(s.capstan, request); !fits {
			r.Metrics.NotPlaced(why.Reasons())
			obstacle = noHost(why)
		}
	}
	if s.obstacle = obstacle; obstacle != nil {
		r.adviseOn(ctx, s)
		return step.Stop(), nil
	}
	return step.Next(), nil
}

// plan returns a request for the host that the machine needs, or why it can't have a host.
func plan(s *scope) (placement.Request, *step.Obstacle) {
	if !s.machine.DeletionTimestamp.IsZero() {
		return placement.Request{}, &step.Obstacle{
			Reason: infrav1.DeletingReason, Message: "the Machine is being deleted, so no host is claimed for it",
		}
	}
	request, err := requestFor(s)
	if err != nil {
		return request, &step.Obstacle{Reason: infrav1.NoHostMatchesReason, Message: err.Error()}
	}
	return request, nil
}

// noHost returns the obstacle for a placement that found no host.
func noHost(why placement.Explanation) *step.Obstacle {
	return &step.Obstacle{
		Reason:  infrav1.NoHostMatchesReason,
		Message: why.String() + "; " + addHosts,
	}
}

// requestFor returns a request for the host that the machine needs (IM-17).
func requestFor(s *scope) (placement.Request, error) {
	request := placement.Request{
		Cluster:      s.machine.Spec.ClusterName,
		ControlPlane: util.IsControlPlaneMachine(s.machine),
		Zone:         s.machine.Spec.FailureDomain,
		Version:      s.machine.Spec.Version,
		Selector:     labels.Everything(),
		Hardware:     s.capstan.Spec.HostRequirements,
	}
	if s.capstan.Spec.HostSelector != nil {
		selector, err := metav1.LabelSelectorAsSelector(s.capstan.Spec.HostSelector)
		if err != nil {
			return request, fmt.Errorf("spec.hostSelector is invalid: %w; correct the CapstanMachineTemplate", err)
		}
		request.Selector = selector
	}
	if s.local {
		request.Selector = placement.Local(request.Selector)
	}
	return request, nil
}
