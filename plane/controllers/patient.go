package controllers

import (
	"context"

	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	runtimeclient "sigs.k8s.io/cluster-api/exp/runtime/client"
	ctrl "sigs.k8s.io/controller-runtime"
)

// patient is a runtime client that lets the plane start although an extension is down. At its start upstream asks every registered extension
// for its handlers, and ends the whole process when one has not answered for a minute. Here the extension keeps the handlers that it told
// before: hooks that call it fail as their failure policy says, and the ExtensionConfig controller goes on asking.
type patient struct{ runtimeclient.Client }

// Discover asks the extension, and takes what is known when it does not answer during the start.
func (p patient) Discover(ctx context.Context, config *runtimev1.ExtensionConfig) (*runtimev1.ExtensionConfig, error) {
	found, err := p.Client.Discover(ctx, config)
	if err != nil && !p.IsReady() && ctx.Err() == nil {
		ctrl.LoggerFrom(ctx).Error(err, "A runtime extension does not answer; its handlers of before are kept", "ExtensionConfig", config.Name)
		return config.DeepCopy(), nil
	}
	return found, err
}
