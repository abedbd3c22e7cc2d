package machine

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"

	"github.com/capstan-dev/capstan/provider/pause"
	"github.com/capstan-dev/capstan/provider/step"
)

// pause finds the Cluster, and ends the pass if the Cluster or the object is paused (IM-64).
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
	s.running = true
	return step.Next(), nil
}

func clusterName(s *scope) string {
	if s.machine != nil {
		return s.machine.Spec.ClusterName
	}
	return s.capstan.Labels[clusterv1.ClusterNameLabel]
}
