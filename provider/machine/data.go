package machine

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/bootstrapdata"
	"github.com/capstan-dev/capstan/provider/step"
)

// dataNamed ends the pass if the Machine does not yet name the Secret with the bootstrap data (IM-48).
func (r *Reconciler) dataNamed(_ context.Context, s *scope) (step.Answer, error) {
	if s.machine.Spec.Bootstrap.DataSecretName == nil {
		s.obstacle = &step.Obstacle{
			Reason:  infrav1.WaitingForBootstrapDataReason,
			Message: fmt.Sprintf("the bootstrap provider has not created the bootstrap data of Machine %s yet", s.machine.Name),
			Brief:   true,
		}
		return step.Stop(), nil
	}
	return step.Next(), nil
}

// readData reads the bootstrap data before a host is claimed, so that no host is held while the data is missing.
func (r *Reconciler) readData(ctx context.Context, s *scope) (step.Answer, error) {
	if s.host != nil || hadHost(s.capstan) != "" {
		return step.Next(), nil
	}
	err := r.loadData(ctx, s)
	refused := (*bootstrapdata.RefusedError)(nil)
	switch {
	case apierrors.IsNotFound(err):
		s.obstacle = &step.Obstacle{
			Reason:  infrav1.WaitingForBootstrapDataReason,
			Message: fmt.Sprintf("Secret %s with the bootstrap data does not exist", *s.machine.Spec.Bootstrap.DataSecretName),
		}
	case errors.As(err, &refused):
		s.obstacle = &step.Obstacle{Reason: infrav1.BootstrapDataRefusedReason, Message: refused.Error()}
	}
	return step.Next(), err
}

// loadData reads the bootstrap data, at most once per pass.
func (r *Reconciler) loadData(ctx context.Context, s *scope) (err error) {
	if s.data == nil {
		s.data, err = bootstrapdata.Read(ctx, r.Reader, r.Client.RESTMapper(), s.machine)
	}
	return err
}
