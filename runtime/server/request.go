package server

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/internal/wire"
)

// decode reads a request. It accepts Clusters of v1beta1 too; handlers always see v1beta2.
func decode(h *Handler, body []byte) (runtime.Object, error) {
	body, err := wire.UpgradeCluster(body)
	if err != nil {
		return nil, err
	}
	request := h.descriptor.NewRequest()
	if err := wire.Decode(body, request, h.descriptor.ID.APIVersion(), h.descriptor.RequestKind); err != nil {
		return nil, err
	}
	return request, nil
}

// clusterOf returns the Cluster that a lifecycle hook is about, nil for other hooks.
func clusterOf(request runtime.Object) *clusterv1.Cluster {
	switch r := request.(type) {
	case *runtimehooksv1.BeforeClusterCreateRequest:
		return &r.Cluster
	case *runtimehooksv1.AfterControlPlaneInitializedRequest:
		return &r.Cluster
	case *runtimehooksv1.BeforeClusterUpgradeRequest:
		return &r.Cluster
	case *runtimehooksv1.BeforeControlPlaneUpgradeRequest:
		return &r.Cluster
	case *runtimehooksv1.AfterControlPlaneUpgradeRequest:
		return &r.Cluster
	case *runtimehooksv1.BeforeWorkersUpgradeRequest:
		return &r.Cluster
	case *runtimehooksv1.AfterWorkersUpgradeRequest:
		return &r.Cluster
	case *runtimehooksv1.AfterClusterUpgradeRequest:
		return &r.Cluster
	case *runtimehooksv1.BeforeClusterDeleteRequest:
		return &r.Cluster
	}
	return nil
}

func logAnswer(ctx context.Context, log *slog.Logger, response runtimehooksv1.ResponseObject, duration time.Duration) {
	level, values := slog.LevelInfo, []any{"status", response.GetStatus(), "message", response.GetMessage(), "duration",
		duration.String()}
	if retry, ok := response.(runtimehooksv1.RetryResponseObject); ok && retry.GetRetryAfterSeconds() != 0 {
		values = append(values, "retryAfterSeconds", retry.GetRetryAfterSeconds())
	}
	if response.GetStatus() != runtimehooksv1.ResponseStatusSuccess {
		level = slog.LevelError
	}
	log.Log(ctx, level, "A hook was answered", values...)
}
