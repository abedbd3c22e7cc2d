package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/core/setup"
	"sigs.k8s.io/cluster-api/feature"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/gates"
	"github.com/capstan-dev/capstan/plane/wakeup"
)

// setter adds controllers to a manager; its methods are the steps.
type setter struct {
	ctrl.Manager
	concurrency int
	gates       gates.Set
	deps        Deps
	// waker is the cluster cache; see package wakeup.
	waker *wakeup.Cache
	// secretNames watches the metadata of all Secrets, for controllers that must also see Secrets without a cluster.
	secretNames cache.Cache
}

// shared creates what all controllers share: one connection to each workload cluster, one reader of Secrets, and one
// runtime client.
func (s *setter) shared(ctx context.Context, opts Options) error {
	var err error
	if s.deps.SecretReader, err = setup.CreateSecretCachingClient(s.Manager); err != nil {
		return fmt.Errorf("making the client that reads Secrets: %w", err)
	}

	// Core's options suit all controllers: those of the other providers only trim more.
	connections := setup.ClusterCacheClientOptions(name, 100, 200)
	caches := setup.ClusterCacheCacheOptions()
	caches.ByObject = map[client.Object]cache.ByObject{&corev1.Pod{}: {Transform: wakeup.TrimPod}}
	var names recreated
	clusters, err := clustercache.SetupWithManager(ctx, s.Manager, clustercache.Options{
		SecretClient: kubeconfigs{s.deps.SecretReader}, Cache: caches, Client: connections, ClusterFilter: names.same,
	}, names.options(s.options()))
	if err != nil {
		return fmt.Errorf("adding the cluster cache: %w", err)
	}
	retry, ok := clusters.(interface{ SetConnectionCreationRetryInterval(time.Duration) })
	if !ok {
		return errors.New("the cluster cache of this version of Cluster API has no settable retry interval: creating " +
			"clusters would take 30 s longer")
	}
	retry.SetConnectionCreationRetryInterval(opts.ConnectRetry)
	s.waker = wakeup.New(clusters, s.GetClient())
	s.deps.ClusterCache = s.waker

	if s.gates.On(feature.RuntimeSDK) {
		if s.deps.RuntimeClient, err = opts.RuntimeClient(ctx, s.Manager); err != nil {
			return fmt.Errorf("making the runtime client: %w", err)
		}
	}

	s.secretNames, err = cache.New(s.GetConfig(), cache.Options{
		Scheme: s.GetScheme(), Mapper: s.GetRESTMapper(), HTTPClient: s.GetHTTPClient(),
		SyncPeriod: ptr.To(syncPeriod),
		ByObject: map[client.Object]cache.ByObject{
			&metav1.PartialObjectMetadata{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			}: {Transform: cache.TransformStripManagedFields()},
		},
	})
	if err != nil {
		return fmt.Errorf("making the cache of Secret names: %w", err)
	}
	if err := s.Add(s.secretNames); err != nil {
		return fmt.Errorf("adding the cache of Secret names: %w", err)
	}
	return nil
}

// wakeups adds the controller that spares the others their fixed pauses.
func (s *setter) wakeups(context.Context) error {
	return s.waker.SetupWithManager(s.Manager, s.options())
}
