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

// place stops a machine that has no host and gets none now. It looks at the cache: a crowd of machines that wait must
// not ask the API server at every change of a host. Which host it will be is decided when it is claimed.
func (r *Reconciler) place(_ context.Context, s *scope) (step.Answer, error) {
	if s.host != nil || hadHost(s.capstan) != "" {
		return step.Next(), nil
	}
	if _, s.obstacle = planClaim(s, s.hosts); s.obstacle != nil {
		return step.Stop(), nil
	}
	return step.Next(), nil
}

// planClaim returns the host to claim, an element of hosts, or what keeps the machine from having one.
func planClaim(s *scope, hosts []infrav1.CapstanHost) (*infrav1.CapstanHost, *step.Obstacle) {
	if !s.machine.DeletionTimestamp.IsZero() {
		return nil, &step.Obstacle{
			Reason: infrav1.DeletingReason, Message: "the Machine is being deleted: no host is claimed any more",
		}
	}
	request, err := requestFor(s)
	if err != nil {
		return nil, &step.Obstacle{Reason: infrav1.NoHostMatchesReason, Message: err.Error()}
	}
	host, why := placement.Place(hosts, request)
	if host == nil {
		return nil, &step.Obstacle{
			Reason:  infrav1.NoHostMatchesReason,
			Message: why.String() + "; add hosts or free some, then placement is tried again",
		}
	}
	return host, nil
}

// requestFor says what host the machine needs (IM-17).
func requestFor(s *scope) (placement.Request, error) {
	request := placement.Request{
		Namespace:    s.capstan.Namespace,
		Cluster:      s.machine.Spec.ClusterName,
		ControlPlane: util.IsControlPlaneMachine(s.machine),
		Zone:         s.machine.Spec.FailureDomain,
		Version:      s.machine.Spec.Version,
		Selector:     labels.Everything(),
	}
	if s.capstan.Spec.HostSelector != nil {
		selector, err := metav1.LabelSelectorAsSelector(s.capstan.Spec.HostSelector)
		if err != nil {
			return request, fmt.Errorf("spec.hostSelector can't be used: %w; correct the CapstanMachineTemplate", err)
		}
		request.Selector = selector
	}
	return request, nil
}
