package cluster

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/patch"
	"github.com/capstan-dev/capstan/provider/pause"
	"github.com/capstan-dev/capstan/provider/step"
)

// owned ends the pass if no Cluster owns the object (IC-46). The step comes after pause, because the annotation pauses
// an object even before the object has an owner. It writes no status for a new object (see step.Fresh), whose Cluster
// may be paused and not in the cache yet.
func (r *Reconciler) owned(_ context.Context, s *scope) (step.Answer, error) {
	if s.cluster == nil {
		if step.Fresh(s.capstan, r.Clock.Now()) {
			s.silent = true
			return step.StopFor(step.Settle), nil
		}
		s.obstacle = &step.Obstacle{
			Reason:  infrav1.WaitingForOwnerReason,
			Message: "no Cluster owns this object yet: Cluster API sets the owner when a Cluster refers to it",
		}
		return step.Stop(), nil
	}
	return step.Next(), nil
}

// owner finds the Cluster that owns the object. It sets s.name even if the Cluster no longer exists.
func (r *Reconciler) owner(ctx context.Context, s *scope) (step.Answer, error) {
	s.name = types.NamespacedName{Namespace: s.capstan.Namespace, Name: ownerName(s.capstan)}
	if s.name.Name == "" {
		return step.Next(), nil
	}
	cluster, err := util.GetClusterByName(ctx, r.Client, s.name.Namespace, s.name.Name)
	switch {
	case apierrors.IsNotFound(err):
		return step.Next(), nil
	case err != nil:
		return step.Answer{}, fmt.Errorf("reading the owner: %w", err)
	}
	s.cluster = cluster
	return step.Next(), nil
}

func ownerName(object client.Object) string {
	for _, ref := range object.GetOwnerReferences() {
		gv, err := schema.ParseGroupVersion(ref.APIVersion)
		if err == nil && gv.Group == clusterv1.GroupVersion.Group && ref.Kind == "Cluster" {
			return ref.Name
		}
	}
	return ""
}

// pause ends the pass if the Cluster or the object is paused (IC-42).
func (r *Reconciler) pause(_ context.Context, s *scope) (step.Answer, error) {
	if s.paused = pause.Why(s.cluster, s.capstan); s.paused != "" {
		return step.Stop(), nil
	}
	s.running = true
	return step.Next(), nil
}

// finalizer adds our finalizer before a balancer is created (IC-47).
func (r *Reconciler) finalizer(ctx context.Context, s *scope) (step.Answer, error) {
	before := s.capstan.DeepCopy()
	controllerutil.AddFinalizer(s.capstan, infrav1.ClusterFinalizer)
	return step.Next(), patch.Object(ctx, r.Client, before, s.capstan, patch.Locked)
}
