// Package controllers runs all of Cluster API in one manager: the reconcilers and webhooks of its core, kubeadm
// bootstrap and kubeadm control plane providers, beside those that the caller adds, over one cache, one webhook server
// and one set of connections to workload clusters.
//
// Upstream runs them as three managers. What must be made once here, although upstream makes it in each, is said where
// it is made.
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

// name is what the caches and user agents of this process are called.
const name = "capstan-plane"

// Limits that upstream sets for many clusters on a shared management cluster, set for one machine here.
const (
	syncPeriod       = 10 * time.Minute
	cacheSyncTimeout = 2 * time.Minute
	shutdownTimeout  = 8 * time.Second
	queriesPerSecond = 200
	burst            = 400
)

// Options say what to run.
type Options struct {
	// Config reaches the API server. Required.
	Config *rest.Config
	// WebhookHost and WebhookPort are where the webhooks are served. Required.
	WebhookHost string
	WebhookPort int
	// WebhookCertificate returns what the webhook server shows; it is called for each connection. Required.
	WebhookCertificate func() (*tls.Certificate, error)
	// MetricsAddress is where metrics are served, as host:port. Empty serves none.
	MetricsAddress string
	// Concurrency is how many objects of one kind are reconciled at the same time; default 10.
	Concurrency int
	// ConnectRetry is the pause before a workload cluster that could not be reached is tried again; default 1 s.
	// Upstream's 30 s would be the longest single delay of a cluster's creation, because the first try always comes before
	// the API server answers.
	ConnectRetry time.Duration
	// Scheme adds types to the scheme.
	Scheme []func(*runtime.Scheme) error
	// RuntimeClient makes the client by which reconcilers call runtime extensions. Required.
	RuntimeClient func(ctx context.Context, mgr ctrl.Manager) (runtimeclient.Client, error)
	// Setup adds controllers and webhooks to the manager, after upstream's.
	Setup []Setup
	// Gates are all feature gates of Cluster API, as [gates.Set.With] returns them. Default: those of [gates.Plane].
	Gates gates.Set
}

// Deps are what controllers share.
type Deps struct {
	// ClusterCache holds the connections to workload clusters.
	ClusterCache clustercache.ClusterCache
	// SecretReader reads Secrets of clusters (those with the cluster name label) from the cache. Only Secrets of a known
	// purpose, such as NAME-kubeconfig and NAME-ca, have their data.
	SecretReader client.Client
	// RuntimeClient calls runtime extensions. It is nil while the feature gate RuntimeSDK is closed.
	RuntimeClient runtimeclient.Client
}

// Setup adds controllers or webhooks to a manager.
type Setup func(ctx context.Context, mgr ctrl.Manager, deps Deps) error

// Controllers is a manager that is set up and was not started yet.
type Controllers struct {
	manager ctrl.Manager
	guard   *readyourwrites.Guard
}

// New sets everything up. The API server must serve the CustomResourceDefinitions already, for the indexes need them.
// It works once in a process: upstream keeps feature gates, metrics and the names of caches in global variables.
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

// Run runs the manager until ctx ends. ready (may be nil) is called once the webhooks answer, the caches are filled and
// the controllers work.
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

// Client returns a client that reads from the API server and not from the caches.
func (c *Controllers) Client() (client.Client, error) {
	return client.New(c.manager.GetConfig(), client.Options{
		HTTPClient: c.manager.GetHTTPClient(), Scheme: c.manager.GetScheme(), Mapper: c.manager.GetRESTMapper(),
	})
}

// LateWrites returns how many writes were not seen by the caches in time; see package readyourwrites.
func (c *Controllers) LateWrites() int { return c.guard.Late() }

// wait returns true once everything works, and false if ctx ended before.
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
	case <-c.manager.Elected(): // without election: when the controllers are being started
	}
	return c.manager.GetCache().WaitForCacheSync(ctx)
}

// newManager makes a manager whose cache fits all three of upstream's providers and whose writes are guarded.
func newManager(scheme *runtime.Scheme, guard *readyourwrites.Guard, opts Options) (ctrl.Manager, error) {
	// Core's cache is the one that holds everything: the other providers' drop fields that core needs. But they read the
	// data of the Secrets that belong to clusters, of which core keeps kubeconfigs only.
	caches := setup.ManagerCacheOptions(scheme, name, "", syncPeriod)
	for object, by := range caches.ByObject {
		if _, ok := object.(*corev1.Secret); ok {
			by.Transform = trimSecret
			caches.ByObject[object] = by
		}
	}
	// Secrets are cached by label, so the guard would wait for those that the cache never sees.
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

// readYourWritesInformer makes the guard see the informers of caches, but those of Secrets.
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
	// longestRetry is how long a controller pauses at most before it tries again what has failed. The default is more than
	// 16 minutes: when the cause of a long outage is gone, nobody wants to wait for so long, and there are few objects on
	// a plane.
	longestRetry = 30 * time.Second
)

// options are the controller options of every controller that has no reason for others.
func (s *setter) options() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: s.concurrency,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry,
			longestRetry),
	}
}
