package machine

import (
	"context"
	"fmt"

	"k8s.io/utils/ptr"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/step"
)

// cluster stops while the Cluster does not exist (IM-43).
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

// clusterInfrastructure stops while the Cluster's infrastructure is not provisioned (IM-45).
func (r *Reconciler) clusterInfrastructure(_ context.Context, s *scope) (step.Answer, error) {
	if !ptr.Deref(s.owningCluster.Status.Initialization.InfrastructureProvisioned, false) {
		s.obstacle = &step.Obstacle{
			Reason:  infrav1.WaitingForClusterInfrastructureReason,
			Message: fmt.Sprintf("the infrastructure of Cluster %s is not provisioned yet", s.owningCluster.Name),
			Brief:   true,
		}
		return step.Stop(), nil
	}
	return step.Next(), nil
}
