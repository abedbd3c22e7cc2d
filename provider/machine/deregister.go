package machine

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/step"
)

// deregister takes a control plane machine out of the balancer before its host goes away (IM-58).
func (r *Reconciler) deregister(ctx context.Context, s *scope) (step.Answer, error) {
	if s.host == nil || !s.host.Spec.Claim.ControlPlane || s.owningCluster == nil || r.Backends.Balancer == nil {
		return step.Next(), nil
	}
	infrastructure, err := r.infrastructure(ctx, s)
	if err != nil || infrastructure == nil || infrastructure.Spec.LoadBalancer.Type != infrav1.LoadBalancerLocal {
		return step.Next(), err
	}
	port := s.owningCluster.Spec.ClusterNetwork.APIServerPort
	return step.Next(), r.Backends.Sync(ctx, client.ObjectKeyFromObject(s.owningCluster), port)
}
