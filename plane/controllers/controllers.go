// Package controllers runs all of Cluster API in one manager: the reconcilers and webhooks of its core, kubeadm
// bootstrap and kubeadm control plane providers, and those that the caller adds. They share one cache, one webhook
// server and one set of connections to workload clusters.
//
// Upstream runs them as three managers. Comments in the code mark what must be created only once here although each of
// upstream's managers creates its own.
package controllers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/core/setup"
	runtimeclient "sigs.k8s.io/cluster-api/exp/runtime/client"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/cluster-api/util/apiwarnings"
	"sigs.k8s.io/cluster-api/util/index"
	"sigs.k8s.io/cluster-api/util/secret"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/capstan-dev/capstan/internal/backoff"
	"github.com/capstan-dev/capstan/internal/gates"
	"github.com/capstan-dev/capstan/plane/readyourwrites"
)

// name identifies this process in the names of caches and in user agents.
const name = "capstan-plane"

// Limits for a plane on one machine. Upstream's limits are for many clusters in a shared management cluster.
const (
	syncPeriod       = 10 * time.Minute
	cacheSyncTimeout = 2 * time.Minute
	shutdownTimeout  = 8 * time.Second
	queriesPerSecond = 200
	burst            = 400
)

// Options configure the Controllers.
type Options struct {
	// Config connects to the API server. Required.
	Config *rest.Config
	// WebhookHost and WebhookPort are where the webhooks are served. Required.
	WebhookHost string
	WebhookPort int
	// WebhookCertificate returns the serving certificate of the webhooks; it is called for each connection. Required.
	WebhookCertificate func() (*tls.Certificate, error)
	// MetricsAddress is where metrics are served, as host:port. Empty: nowhere.
	MetricsAddress string
	// Concurrency is how many objects of a kind are reconciled concurrently; default 10.
	Concurrency int
	// ConnectRetry is the pause between attempts to reach a workload cluster; default 1 s. Upstream's 30 s would be the
	// longest single delay in creating a cluster, because the first attempt always comes before the API server answers.
	ConnectRetry time.Duration
	// Scheme adds types to the scheme.
	Scheme []func(*runtime.Scheme) error
	// RuntimeClient creates the client with which reconcilers call runtime extensions. Required.
	RuntimeClient func(ctx context.Context, mgr ctrl.Manager) (runtimeclient.Client, error)
	// Setup adds controllers and webhooks to the manager, after upstream's.
	Setup []Setup
	// Gates are all feature gates of Cluster API, as returned by [gates.Set.With]. Default: those of [gates.Plane].
	Gates gates.Set
}

// Deps are shared by all controllers.
type Deps struct {
	// ClusterCache holds the connections to workload clusters.
	ClusterCache clustercache.ClusterCache
	// SecretReader reads Secrets of clusters (those with the cluster name label) from the cache. The cache keeps the
	// data only of Secrets with a known purpose, such as NAME-kubeconfig and NAME-ca.
	SecretReader client.Client
	// RuntimeClient calls runtime extensions. It is nil if the feature gate RuntimeSDK is off.
	RuntimeClient runtimeclient.Client
}

// Setup adds controllers or webhooks to a manager.
type Setup func(ctx context.Context, mgr ctrl.Manager, deps Deps) error

// Controllers is a manager that is set up but not started.
type Controllers struct {
	manager ctrl.Manager
	guard   *readyourwrites.Guard
}

// New sets everything up. The API server must already serve the CustomResourceDefinitions, because the indexes need
// them. New works only once per process, because upstream keeps feature gates, metrics and cache names in global
// variables.
func New(ctx context.Context, opts Options) (*Controllers, error) {
	if opts.Concurrency <= 0 {
		opts.Concurrency = 10
	}
	if opts.ConnectRetry <= 0 {
		opts.ConnectRetry = time.Second
	}
	if opts.RuntimeClient == nil {
		return nil, errors.New("setting up controllers: no runtime client was given")
	}
	if opts.Gates == nil {
		var err error
		if opts.Gates, err = gates.Plane().With(nil); err != nil {
			return nil, err
		}
	}
	if err := opts.Gates.Open(); err != nil {
		return nil, err
	}
	scheme, err := newScheme(opts.Scheme)
	if err != nil {
		return nil, err
	}
	guard := readyourwrites.New(scheme, 0)
	mgr, err := newManager(scheme, guard, opts)
	if err != nil {
		return nil, fmt.Errorf("making the manager: %w", err)
	}
	if err := index.AddDefaultIndexes(ctx, mgr); err != nil {
		return nil, fmt.Errorf("making the indexes: %w", err)
	}
	s := setter{Manager: mgr, concurrency: opts.Concurrency, gates: opts.Gates}
	if err := s.shared(ctx, opts); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{
		s.migrator, s.core, s.pools, s.extensions, s.topology, s.kubeadm, s.wakeups, s.webhooks,
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	for _, setup := range opts.Setup {
		if err := setup(ctx, mgr, s.deps); err != nil {
			return nil, fmt.Errorf("adding controllers: %w", err)
		}
	}
	return &Controllers{manager: mgr, guard: guard}, nil
}

// Run runs the manager until ctx ends. It calls the function ready, which may be nil, once the webhooks answer, the
// caches are filled and the controllers are running.
func (c *Controllers) Run(ctx context.Context, ready func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if c.wait(ctx) && ready != nil {
			ready()
		}
	}()
	err := c.manager.Start(ctx)
	cancel()
	<-watched
	if err != nil {
		return fmt.Errorf("running the controllers: %w", err)
	}
	return nil
}

// Client returns a client that reads from the API server, not from the caches.
func (c *Controllers) Client() (client.Client, error) {
	return client.New(c.manager.GetConfig(), client.Options{
		HTTPClient: c.manager.GetHTTPClient(), Scheme: c.manager.GetScheme(), Mapper: c.manager.GetRESTMapper(),
	})
}

// LateWrites returns the number of writes that the caches did not see in time; see package readyourwrites.
func (c *Controllers) LateWrites() int { return c.guard.Late() }

// wait returns true once everything works, or false if ctx ends first.
func (c *Controllers) wait(ctx context.Context) bool {
	answers := c.manager.GetWebhookServer().StartedChecker()
	for answers(nil) != nil {
		if backoff.Sleep(ctx, 10*time.Millisecond) != nil {
			return false
		}
	}
	select {
	case <-ctx.Done():
		return false
	case <-c.manager.Elected(): // without leader election, closed when the controllers start
	}
	return c.manager.GetCache().WaitForCacheSync(ctx)
}

// newManager creates a manager whose cache suits all three of upstream's providers and whose writes are guarded.
func newManager(scheme *runtime.Scheme, guard *readyourwrites.Guard, opts Options) (ctrl.Manager, error) {
	// Use core's cache, because the other providers' caches drop fields that core needs. But the other providers read the
	// data of all Secrets that belong to clusters, and core's cache keeps only kubeconfigs.
	caches := setup.ManagerCacheOptions(scheme, name, "", syncPeriod)
	for object, by := range caches.ByObject {
		if _, ok := object.(*corev1.Secret); ok {
			by.Transform = trimSecret
			caches.ByObject[object] = by
		}
	}
	// Secrets are cached by label, so the guard would wait for Secrets that the cache never sees.
	caches.NewInformer = readYourWritesInformer(guard, caches)

	conf := rest.CopyConfig(opts.Config)
	conf.QPS, conf.Burst, conf.UserAgent = queriesPerSecond, burst, name
	conf.WarningHandler = apiwarnings.DefaultHandler(ctrl.Log.WithName("API server warning"))
	conf.Wrap(guard.Wrap)

	metrics := opts.MetricsAddress
	if metrics == "" {
		metrics = "0"
	}
	return ctrl.NewManager(conf, ctrl.Options{
		Scheme: scheme,
		Cache:  caches,
		Client: setup.ManagerClientOptions(), NewClient: newClient,
		Controller: config.Controller{
			UsePriorityQueue: ptr.To(feature.Gates.Enabled(feature.PriorityQueue)),
			CacheSyncTimeout: cacheSyncTimeout,
		},
		GracefulShutdownTimeout: ptr.To(shutdownTimeout),
		Metrics:                 metricsserver.Options{BindAddress: metrics},
		HealthProbeBindAddress:  "0",
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: opts.WebhookHost,
			Port: opts.WebhookPort,
			TLSOpts: []func(*tls.Config){func(c *tls.Config) {
				c.MinVersion = tls.VersionTLS12
				c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return opts.WebhookCertificate() }
			}},
		}),
	})
}

// readYourWritesInformer shows the guard all informers of the caches except those of Secrets.
func readYourWritesInformer(guard *readyourwrites.Guard, caches cache.Options) readyourwrites.NewInformer {
	return guard.Informers(readyourwrites.NewInformer(caches.NewInformer), schema.GroupResource{Resource: "secrets"})
}

// trimSecret drops the data of Secrets that no controller reads from the cache.
func trimSecret(in any) (any, error) {
	if s, ok := in.(*corev1.Secret); ok {
		s.SetManagedFields(nil)
		if !secret.HasPurposeSuffix(s.Name) {
			s.Data = nil
		}
	}
	return in, nil
}

const (
	firstRetry = 5 * time.Millisecond
	// longestRetry is the maximum pause of a controller before it retries. The default of over 16 minutes is too long
	// to wait after a long outage has ended, and a plane has few objects.
	longestRetry = 30 * time.Second
)

// options are the controller options of every controller that needs no others.
func (s *setter) options() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: s.concurrency,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry,
			longestRetry),
	}
}
