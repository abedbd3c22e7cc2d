package machine

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/step"
)

// deregister takes a control plane machine out of the balancer before its host goes away (IM-58).
func (r *Reconciler) deregister(ctx context.Context, s *scope) (step.Answer, error) {
	if s.host == nil || !s.host.Spec.Claim.ControlPlane || s.owningCluster == nil || r.Backends.Balancer == nil {
		return step.Next(), nil
	}
	ref := s.owningCluster.Spec.InfrastructureRef
	if ref.Kind != "CapstanCluster" || ref.APIGroup != infrav1.GroupVersion.Group {
		return step.Next(), nil
	}
	cluster := &infrav1.CapstanCluster{}
	key := types.NamespacedName{Namespace: s.capstan.Namespace, Name: ref.Name}
	if err := r.Client.Get(ctx, key, cluster); err != nil {
		return step.Next(), client.IgnoreNotFound(err)
	}
	if cluster.Spec.LoadBalancer.Type != infrav1.LoadBalancerLocal {
		return step.Next(), nil
	}
	port := s.owningCluster.Spec.ClusterNetwork.APIServerPort
	return step.Next(), r.Backends.Sync(ctx, client.ObjectKeyFromObject(s.owningCluster), port)
}
