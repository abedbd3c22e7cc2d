package machine

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/patch"
	"github.com/capstan-dev/capstan/provider/step"
)

// finalizer adds our finalizer before a host can be claimed (IM-44).
func (r *Reconciler) finalizer(ctx context.Context, s *scope) (step.Answer, error) {
	before := s.capstan.DeepCopy()
	controllerutil.AddFinalizer(s.capstan, infrav1.MachineFinalizer)
	return step.Next(), patch.Object(ctx, r.Client, before, s.capstan, patch.Locked)
}

// heldByUs ends the pass if the object is being deleted and does not have our finalizer. This step comes first, because
// such an object gets no status either.
func (r *Reconciler) heldByUs(_ context.Context, s *scope) (step.Answer, error) {
	if !controllerutil.ContainsFinalizer(s.capstan, infrav1.MachineFinalizer) {
		s.gone = true
		return step.Stop(), nil
	}
	return step.Next(), nil
}

// removeFinalizer removes our finalizer, so that the object can be deleted (IM-60, IM-61).
func (r *Reconciler) removeFinalizer(ctx context.Context, s *scope) (step.Answer, error) {
	before := s.capstan.DeepCopy()
	controllerutil.RemoveFinalizer(s.capstan, infrav1.MachineFinalizer)
	if err := patch.Object(ctx, r.Client, before, s.capstan, patch.Locked); client.IgnoreNotFound(err) != nil {
		return step.Answer{}, err
	}
	s.gone = true
	return step.Stop(), nil
}
