package machine

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/step"
)

// cluster ends the pass if the Cluster does not exist (IM-43).
func (r *Reconciler) cluster(_ context.Context, s *scope) (step.Answer, error) {
	if s.owningCluster == nil {
		s.obstacle = &step.Obstacle{
			Reason:  infrav1.WaitingForClusterInfrastructureReason,
			Message: fmt.Sprintf("Cluster %s of Machine %s does not exist", s.machine.Spec.ClusterName, s.machine.Name),
			Brief:   true,
		}
		return step.Stop(), nil
	}
	return step.Next(), nil
}

// clusterInfrastructure ends the pass if the Cluster's infrastructure is not provisioned (IM-45).
func (r *Reconciler) clusterInfrastructure(ctx context.Context, s *scope) (step.Answer, error) {
	if !ptr.Deref(s.owningCluster.Status.Initialization.InfrastructureProvisioned, false) {
		s.obstacle = &step.Obstacle{
			Reason:  infrav1.WaitingForClusterInfrastructureReason,
			Message: fmt.Sprintf("the infrastructure of Cluster %s is not provisioned yet", s.owningCluster.Name),
			Brief:   true,
		}
		return step.Stop(), nil
	}
	infrastructure, err := r.infrastructure(ctx, s)
	if err != nil {
		return step.Answer{}, err
	}
	s.local = infrastructure != nil && infrastructure.Spec.LoadBalancer.Type == infrav1.LoadBalancerLocal
	return step.Next(), nil
}

// infrastructure returns the CapstanCluster of the Cluster, or nil if there is none.
func (r *Reconciler) infrastructure(ctx context.Context, s *scope) (*infrav1.CapstanCluster, error) {
	ref := s.owningCluster.Spec.InfrastructureRef
	if ref.Kind != "CapstanCluster" || ref.APIGroup != infrav1.GroupVersion.Group {
		return nil, nil
	}
	infrastructure := &infrav1.CapstanCluster{}
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: s.capstan.Namespace, Name: ref.Name}, infrastructure)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading CapstanCluster %s: %w", ref.Name, err)
	}
	return infrastructure, nil
}
