package providers

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ReportEmbedded writes the status of the Deployment of a provider that is built into the plane. The status says that
// the provider works, or that the plane is still starting.
func ReportEmbedded(ctx context.Context, c client.Client, key client.ObjectKey, works bool) error {
	d := &appsv1.Deployment{}
	if err := c.Get(ctx, key, d); err != nil {
		return fmt.Errorf("reading Deployment %s: %w", key, err)
	}
	r := &reconciler{Client: c}
	return r.report(ctx, d, state{ready: works, problem: "The plane starts."})
}
