package host

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/claim"
	"github.com/capstan-dev/capstan/provider/identity"
	"github.com/capstan-dev/capstan/provider/patch"
	"github.com/capstan-dev/capstan/provider/step"
)

// finalizer adds our finalizer before the host gets an identity. It ends the pass if the host is being deleted and does
// not have our finalizer.
func (r *Reconciler) finalizer(ctx context.Context, s *scope) (step.Answer, error) {
	if !s.host.DeletionTimestamp.IsZero() {
		if !controllerutil.ContainsFinalizer(s.host, infrav1.HostFinalizer) {
			s.gone = true
			return step.Stop(), nil
		}
		return step.Next(), nil
	}
	before := s.host.DeepCopy()
	controllerutil.AddFinalizer(s.host, infrav1.HostFinalizer)
	return step.Next(), patch.Object(ctx, r.Client, before, s.host, patch.Locked)
}

// delete removes the identity and the finalizer of a host that is being deleted, once its claim is cleared or given up.
// A supplied host is already destroyed by then. A computer whose host was given up and deleted has no identity: it must
// be set up and enrolled again.
func (r *Reconciler) delete(ctx context.Context, s *scope) (step.Answer, error) {
	if s.host.DeletionTimestamp.IsZero() || s.host.Spec.Claim != nil && !claim.Abandoned(s.host) {
		return step.Next(), nil
	}
	if err := identity.Remove(ctx, r.Reader, r.Client, s.host); err != nil {
		return step.Answer{}, err
	}
	if err := r.endEpochs(ctx, s.host); err != nil {
		return step.Answer{}, err
	}
	r.forgetIdentity(s.host)
	before := s.host.DeepCopy()
	controllerutil.RemoveFinalizer(s.host, infrav1.HostFinalizer)
	if err := patch.Object(ctx, r.Client, before, s.host, patch.Locked); client.IgnoreNotFound(err) != nil {
		return step.Answer{}, err
	}
	s.gone = true
	// The host's power record stays until the object is gone from the cache. A pass over an old copy must not destroy the
	// host again, because by then its number may belong to a host in another namespace.
	r.beats.forget(client.ObjectKeyFromObject(s.host))
	return step.Stop(), nil
}
