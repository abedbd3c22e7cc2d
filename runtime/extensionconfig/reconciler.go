package extensionconfig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	runtimeclient "sigs.k8s.io/cluster-api/exp/runtime/client"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/runtime/hook"
)

const (
	// DefaultRediscover is the interval of periodic discoveries.
	DefaultRediscover = 10 * time.Minute
	// DefaultPatience is how long the startup waits for extensions that have never answered.
	DefaultPatience = 20 * time.Second
)

// Reconciler keeps ExtensionConfigs discovered and registered.
type Reconciler struct {
	// Client reads ExtensionConfigs, preferably from a cache, and writes them. Required.
	Client ctrlclient.Client
	// APIReader reads Secrets, which should not be cached, and ExtensionConfigs before caches are filled. Required.
	APIReader ctrlclient.Reader
	// Runtime calls extensions. If it has a method OnStale, as package client's Client does, the Reconciler registers a
	// function there, with which Runtime triggers discoveries. Required.
	Runtime runtimeclient.Client
	// SecretNames caches the metadata of Secrets. With it, a changed CA certificate is noticed immediately. Default: at
	// the next discovery.
	SecretNames cache.Cache
	// Catalog of hooks, which knows the deprecated versions. Default: that of Cluster API.
	Catalog *hook.Catalog
	// Rediscover is the interval of periodic discoveries. Default: DefaultRediscover.
	Rediscover time.Duration
	// Patience is how long the startup waits for extensions that have never answered. Default: DefaultPatience.
	Patience time.Duration

	clients reached
}

// complete checks the fields and sets defaults.
func (r *Reconciler) complete() error {
	if r.Client == nil || r.APIReader == nil || r.Runtime == nil {
		return errors.New("the controller of ExtensionConfigs needs a Client, an APIReader and a Runtime")
	}
	if r.Catalog == nil {
		r.Catalog = hook.ClusterAPI()
	}
	if r.Rediscover <= 0 {
		r.Rediscover = DefaultRediscover
	}
	if r.Patience <= 0 {
		r.Patience = DefaultPatience
	}
	return nil
}

// notReadyPause is the delay before an ExtensionConfig is reconciled again while the registry is being filled.
const notReadyPause = time.Second

// Reconcile discovers one extension and registers it.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if !r.Runtime.IsReady() {
		return ctrl.Result{RequeueAfter: notReadyPause}, nil
	}
	config := &runtimev1.ExtensionConfig{}
	if err := r.Client.Get(ctx, request.NamespacedName, config); apierrors.IsNotFound(err) {
		config.Name = request.Name
		r.clients.drop(config.Name)
		return ctrl.Result{}, r.Runtime.Unregister(config)
	} else if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading ExtensionConfig %s: %w", request.Name, err)
	}
	if !config.DeletionTimestamp.IsZero() {
		r.clients.drop(config.Name)
		return ctrl.Result{}, r.Runtime.Unregister(config)
	}
	before := config.DeepCopy()
	paused := isPaused(config)
	setPaused(config, paused)
	var discoverErr error
	if !paused {
		config, discoverErr = r.discover(ctx, config)
	}
	err := errors.Join(discoverErr, r.writeStatus(ctx, before, config))
	if err != nil || paused {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: r.Rediscover}, nil
}

func isPaused(config *runtimev1.ExtensionConfig) bool {
	_, paused := config.Annotations[clusterv1.PausedAnnotation]
	return paused
}

// discover brings an ExtensionConfig up to date and registers it. It always returns the ExtensionConfig with its new
// status. If something failed, the status keeps the previous handlers. The administrator's overrides apply to these
// too: they are needed most while an extension is down.
func (r *Reconciler) discover(ctx context.Context,
	config *runtimev1.ExtensionConfig) (*runtimev1.ExtensionConfig, error) {
	found, err := r.ask(ctx, config)
	switch before, known := r.clients.of(config.Name); {
	case err == nil:
		config = found
		if err = r.register(config); err == nil {
			r.clients.set(config)
		}
	case known && len(config.Status.Handlers) > 0 && Check(config) == nil:
		// Use the client configuration that worked: the change may be a mistake.
		as := config.DeepCopy()
		as.Spec.ClientConfig = before
		err = errors.Join(err, r.register(as))
	}
	setDiscovered(config, err)
	setNotes(r.Catalog, config)
	return config, err
}

// ask injects the CA certificate and asks the extension for its handlers.
func (r *Reconciler) ask(ctx context.Context, config *runtimev1.ExtensionConfig) (*runtimev1.ExtensionConfig, error) {
	if err := Check(config); err != nil {
		return nil, err
	}
	if err := r.injectAuthority(ctx, config); err != nil {
		return nil, err
	}
	found, err := r.Runtime.Discover(ctx, config)
	if err != nil {
		return nil, err
	}
	keepOrder(config.Status.Handlers, found.Status.Handlers)
	return found, nil
}

// keepOrder keeps handlers in their previous order and appends new ones by name. Published servers list them in a
// different order each time, which would otherwise change the status each time.
func keepOrder(before, handlers []runtimev1.ExtensionHandler) {
	place := make(map[string]int, len(before))
	for i, h := range before {
		place[h.Name] = i - len(before)
	}
	slices.SortStableFunc(handlers, func(a, b runtimev1.ExtensionHandler) int {
		return cmp.Or(cmp.Compare(place[a.Name], place[b.Name]), strings.Compare(a.Name, b.Name))
	})
}

// register passes the handlers to the client. Before the client is ready, the startup does this.
func (r *Reconciler) register(config *runtimev1.ExtensionConfig) error {
	if !r.Runtime.IsReady() {
		return nil
	}
	return r.Runtime.Register(config)
}

// writeStatus writes the status if it has changed.
func (r *Reconciler) writeStatus(ctx context.Context, before, config *runtimev1.ExtensionConfig) error {
	if equality.Semantic.DeepEqual(before.Status, config.Status) {
		return nil
	}
	base := config.DeepCopy()
	base.Status = before.Status
	changed := config.DeepCopy() // the response to the patch must not change the object that gets registered
	err := r.Client.Status().Patch(ctx, changed, ctrlclient.MergeFrom(base))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the status of ExtensionConfig %s: %w", config.Name, err)
	}
	return nil
}
