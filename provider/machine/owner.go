package machine

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/step"
)

// owned ends the pass if no Machine owns the object (IM-41). The step comes after pause, because the annotation pauses
// an object even before the object has an owner.
func (r *Reconciler) owned(_ context.Context, s *scope) (step.Answer, error) {
	if s.machine == nil {
		s.obstacle = &step.Obstacle{
			Reason:  infrav1.WaitingForOwnerReason,
			Message: "no Machine owns this object yet: Cluster API sets the owner when a Machine refers to it",
			Brief:   true,
		}
		return step.Stop(), nil
	}
	return step.Next(), nil
}

// owner finds the Machine that owns the object, if any.
func (r *Reconciler) owner(ctx context.Context, s *scope) (step.Answer, error) {
	s.owned = hasMachineOwner(s.capstan)
	machine, err := util.GetOwnerMachine(ctx, r.Client, s.capstan.ObjectMeta)
	switch {
	case apierrors.IsNotFound(err):
		return step.Next(), nil // the owner is deleted, or not in the cache yet
	case err != nil:
		return step.Answer{}, fmt.Errorf("reading the owner: %w", err)
	}
	s.machine = machine
	return step.Next(), nil
}

func hasMachineOwner(object client.Object) bool {
	for _, ref := range object.GetOwnerReferences() {
		gv, err := schema.ParseGroupVersion(ref.APIVersion)
		if err == nil && gv.Group == clusterv1.GroupVersion.Group && ref.Kind == "Machine" {
			return true
		}
	}
	return false
}
