package controllers

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/logutil"
	"go.uber.org/zap/zapcore"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/reconcilers/kubeadmconfig"
	"sigs.k8s.io/cluster-api/controlplane/kubeadm/reconcilers/kubeadmcontrolplane"
)

// Limits of the control plane provider's calls to etcd members. Upstream waits 10 and 15 s, for remote members; here
// every second counts while a member that is gone is still listed.
const (
	etcdDialTimeout = 5 * time.Second
	etcdCallTimeout = 8 * time.Second
	// kcpTimeout is the same as upstream's: one reconcile contacts all members in turn.
	kcpTimeout = 3 * time.Minute
)

// kubeadm adds the reconcilers of the kubeadm bootstrap and control plane providers.
func (s *setter) kubeadm(ctx context.Context) error {
	err := (&kubeadmconfig.Reconciler{
		Client: s.GetClient(), APIReader: s.GetAPIReader(), SecretCachingClient: s.deps.SecretReader,
		ClusterCache: s.deps.ClusterCache,
		TokenTTL:     kubeadmconfig.DefaultTokenTTL,
	}).SetupWithManager(ctx, s.Manager, s.options())
	if err != nil {
		return fmt.Errorf("adding the controller of KubeadmConfig: %w", err)
	}
	// At level info, etcd's client logs every connection.
	logger, err := logutil.CreateDefaultZapLogger(zapcore.WarnLevel)
	if err != nil {
		return fmt.Errorf("making the logger of the etcd client: %w", err)
	}
	options := s.options()
	options.ReconciliationTimeout = kcpTimeout
	err = (&kubeadmcontrolplane.Reconciler{
		Client: s.GetClient(), APIReader: s.GetAPIReader(), SecretCachingClient: s.deps.SecretReader,
		ClusterCache:    s.deps.ClusterCache,
		RuntimeClient:   s.deps.RuntimeClient,
		EtcdDialTimeout: etcdDialTimeout, EtcdCallTimeout: etcdCallTimeout, EtcdLogger: logger,
		RemoteConditionsGracePeriod: conditionsGrace,
	}).SetupWithManager(ctx, s.Manager, options)
	if err != nil {
		return fmt.Errorf("adding the controller of KubeadmControlPlane: %w", err)
	}
	return nil
}
