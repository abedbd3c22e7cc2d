package topology

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/hint"
)

// Create creates the Cluster of a request that passes [Request.Validate] and [Request.Check].
func Create(ctx context.Context, c client.Client, r Request) error {
	if err := r.Validate(); err != nil {
		return err
	}
	r, err := r.FindClass(ctx, c)
	if err != nil {
		return err
	}
	if err := r.Check(ctx, c); err != nil {
		return err
	}
	if r.ControlPlaneHost != "" {
		if r, err = r.takeEndpoint(ctx, c); err != nil {
			return err
		}
	}
	err = c.Create(ctx, r.Cluster())
	if apierrors.IsAlreadyExists(err) {
		return hint.Errorf("choose another name, or: capstan cluster describe "+r.Name,
			"there is a cluster %q already", r.Name)
	}
	if apierrors.IsNotFound(err) {
		return hint.Errorf("make it: capstan kubectl create namespace "+r.Namespace, "there is no namespace %q",
			r.Namespace)
	}
	if err != nil {
		return fmt.Errorf("creating cluster %s: %w", r.Name, err)
	}
	return nil
}
