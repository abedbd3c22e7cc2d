package topology

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
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
		if err := r.checkIsNew(ctx, c); err != nil {
			return err
		}
		if r, err = r.takeEndpoint(ctx, c); err != nil {
			return err
		}
	}
	err = c.Create(ctx, r.Cluster())
	if apierrors.IsAlreadyExists(err) {
		return r.exists()
	}
	if apierrors.IsNotFound(err) {
		return hint.Errorf("create it: capstan kubectl create namespace "+r.Namespace, "there is no namespace %q",
			r.Namespace)
	}
	if err != nil {
		return fmt.Errorf("creating cluster %s: %w", r.Name, err)
	}
	return nil
}

// checkIsNew refuses the name of an existing cluster, so that takeEndpoint does not remove the mark of that cluster's
// host.
func (r Request) checkIsNew(ctx context.Context, c client.Client) error {
	err := c.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Name}, &clusterv1.Cluster{})
	if err == nil {
		return r.exists()
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("looking for cluster %s: %w", r.Name, err)
	}
	return nil
}

// exists returns the error for a name that is already taken by another cluster.
func (r Request) exists() error {
	return hint.Errorf("choose another name, or: capstan cluster describe "+r.Name,
		"there is a cluster %q already", r.Name)
}
