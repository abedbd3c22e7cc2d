// Package record logs the lifecycle hooks that no part answers. It blocks nothing, so it cannot be switched off.
package record

import (
	"context"
	"log/slog"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/server"
)

// Handlers returns handlers that let hooks through and log their content. The server logs the calls themselves.
func Handlers(log *slog.Logger) []server.Handler {
	r := recorder{log: log}
	return []server.Handler{
		server.Handle(hook.AfterControlPlaneInitialized, "record-initialized", r.afterControlPlaneInitialized,
			server.IgnoreFailures()),
		server.Handle(hook.AfterControlPlaneUpgrade, "record-control-plane", r.afterControlPlaneUpgrade,
			server.IgnoreFailures()),
		server.Handle(hook.AfterWorkersUpgrade, "record-workers", r.afterWorkersUpgrade, server.IgnoreFailures()),
		server.Handle(hook.AfterClusterUpgrade, "record-upgrade", r.afterClusterUpgrade, server.IgnoreFailures()),
		server.Handle(hook.BeforeClusterDelete, "record-delete", r.beforeClusterDelete, server.IgnoreFailures()),
	}
}

type recorder struct {
	log *slog.Logger
}

func (r recorder) record(ctx context.Context, cluster *clusterv1.Cluster, event string, values ...any) error {
	r.log.InfoContext(ctx, event, append([]any{"cluster", cluster.Namespace + "/" + cluster.Name}, values...)...)
	return nil
}

func (r recorder) afterControlPlaneInitialized(ctx context.Context,
	request *runtimehooksv1.AfterControlPlaneInitializedRequest,
	_ *runtimehooksv1.AfterControlPlaneInitializedResponse) error {
	return r.record(ctx, &request.Cluster, "The control plane answers for the first time")
}

func (r recorder) afterControlPlaneUpgrade(ctx context.Context, request *runtimehooksv1.AfterControlPlaneUpgradeRequest,
	_ *runtimehooksv1.AfterControlPlaneUpgradeResponse) error {
	return r.record(ctx, &request.Cluster, "The control plane has reached a version",
		"version", request.KubernetesVersion)
}

func (r recorder) afterWorkersUpgrade(ctx context.Context, request *runtimehooksv1.AfterWorkersUpgradeRequest,
	_ *runtimehooksv1.AfterWorkersUpgradeResponse) error {
	return r.record(ctx, &request.Cluster, "The workers have reached a version", "version", request.KubernetesVersion)
}

func (r recorder) afterClusterUpgrade(ctx context.Context, request *runtimehooksv1.AfterClusterUpgradeRequest,
	_ *runtimehooksv1.AfterClusterUpgradeResponse) error {
	return r.record(ctx, &request.Cluster, "An upgrade has ended", "version", request.KubernetesVersion)
}

func (r recorder) beforeClusterDelete(ctx context.Context, request *runtimehooksv1.BeforeClusterDeleteRequest,
	_ *runtimehooksv1.BeforeClusterDeleteResponse) error {
	return r.record(ctx, &request.Cluster, "A cluster is being deleted")
}
