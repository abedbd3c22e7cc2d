package machine

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/pause"
	"github.com/capstan-dev/capstan/provider/step"
)

// pause finds the Cluster, and stops if it or the object is paused (IM-64).
func (r *Reconciler) pause(ctx context.Context, s *scope) (step.Answer, error) {
	if name := clusterName(s); name != "" {
		cluster, err := util.GetClusterByName(ctx, r.Client, s.capstan.Namespace, name)
		if err != nil && !apierrors.IsNotFound(err) {
			return step.Answer{}, fmt.Errorf("reading Cluster %s: %w", name, err)
		}
		if err == nil {
			s.owningCluster = cluster
		}
	}
	if s.paused = pause.Why(s.owningCluster, s.capstan); s.paused != "" {
		return step.Stop(), nil
	}
	return step.Next(), nil
}

func clusterName(s *scope) string {
	if s.machine != nil {
		return s.machine.Spec.ClusterName
	}
	return s.capstan.Labels[clusterv1.ClusterNameLabel]
}

// cluster stops while the Cluster does not exist (IM-43).
func (r *Reconciler) cluster(_ context.Context, s *scope) (step.Answer, error) {
	if s.owningCluster == nil {
		s.wait = &wait{
			reason:  infrav1.WaitingForClusterInfrastructureReason,
			message: fmt.Sprintf("Cluster %s of Machine %s doesn't exist", s.machine.Spec.ClusterName, s.machine.Name),
			short:   true,
		}
		return step.Stop(), nil
	}
	return step.Next(), nil
}

// clusterInfrastructure stops while the Cluster's infrastructure is not provisioned (IM-45).
func (r *Reconciler) clusterInfrastructure(_ context.Context, s *scope) (step.Answer, error) {
	if !ptr.Deref(s.owningCluster.Status.Initialization.InfrastructureProvisioned, false) {
		s.wait = &wait{
			reason:  infrav1.WaitingForClusterInfrastructureReason,
			message: fmt.Sprintf("the infrastructure of Cluster %s is not provisioned yet", s.owningCluster.Name),
			short:   true,
		}
		return step.Stop(), nil
	}
	return step.Next(), nil
}

// bootstrapData stops while Cluster API has not said where the bootstrap data is (IM-48).
func (r *Reconciler) bootstrapData(_ context.Context, s *scope) (step.Answer, error) {
	if s.machine.Spec.Bootstrap.DataSecretName == nil {
		s.wait = &wait{
			reason:  infrav1.WaitingForBootstrapDataReason,
			message: fmt.Sprintf("the bootstrap data of Machine %s is not made yet", s.machine.Name),
			short:   true,
		}
		return step.Stop(), nil
	}
	return step.Next(), nil
}
