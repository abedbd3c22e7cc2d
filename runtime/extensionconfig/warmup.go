package extensionconfig

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-dev/capstan/runtime/registry"
)

const (
	// retryPause is the time between attempts at startup.
	retryPause = time.Second
	// startParallel bounds how many extensions are asked at the same time.
	startParallel = 16
)

// warmUp fills the registry once, when the manager becomes the leader.
type warmUp struct{ *Reconciler }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (warmUp) NeedLeaderElection() bool { return true }

// Start asks all extensions for their handlers and makes the client ready. It retries until ctx is done, because what
// fails now, such as listing ExtensionConfigs, may work later.
func (w warmUp) Start(ctx context.Context) error {
	log := ctrl.LoggerFrom(ctx)
	patience := time.Now().Add(w.Patience)
	for {
		missing, err := w.attempt(ctx, time.Now().Before(patience))
		if err == nil && len(missing) == 0 {
			log.Info("The registry of runtime extensions is ready")
			return nil
		}
		if err != nil {
			log.Error(err, "The registry of runtime extensions could not be filled, trying again")
		} else {
			log.Info("Waiting for runtime extensions that have never answered", "ExtensionConfigs", missing)
		}
		select {
		case <-ctx.Done():
			return nil // the manager is stopping
		case <-time.After(retryPause):
		}
	}
}

// attempt asks all extensions and makes the client ready. If it may wait and some extensions have never answered, it
// returns their names instead.
func (w warmUp) attempt(ctx context.Context, mayWait bool) (missing []string, err error) {
	list := &runtimev1.ExtensionConfigList{}
	if err := w.APIReader.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing ExtensionConfigs: %w", err)
	}
	errs := make([]error, len(list.Items))
	var workers sync.WaitGroup
	turns := make(chan struct{}, startParallel)
	for i := range list.Items {
		workers.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			errs[i] = w.ask(ctx, &list.Items[i])
		})
	}
	workers.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	good := &runtimev1.ExtensionConfigList{}
	for i := range list.Items {
		config := &list.Items[i]
		if errs[i] != nil {
			ctrl.LoggerFrom(ctx).Error(errs[i], "A runtime extension could not be discovered", "ExtensionConfig", config.Name,
				"handlersOfBefore", len(config.Status.Handlers))
			if len(config.Status.Handlers) == 0 && mayWait && Check(config) == nil {
				missing = append(missing, config.Name)
			}
		}
		// One invalid ExtensionConfig would keep all others from being registered.
		if config.DeletionTimestamp.IsZero() && registry.Check(config) == nil {
			good.Items = append(good.Items, *config)
		}
	}
	if len(missing) > 0 {
		return missing, nil
	}
	if err := w.Runtime.WarmUp(good); err != nil {
		return nil, err
	}
	for i := range good.Items {
		w.clients.set(&good.Items[i])
	}
	return nil, nil
}

// ask discovers one extension, in place.
func (w warmUp) ask(ctx context.Context, config *runtimev1.ExtensionConfig) error {
	if isPaused(config) || !config.DeletionTimestamp.IsZero() {
		return nil
	}
	before := config.DeepCopy()
	setPaused(config, false)
	found, discoverErr := w.discover(ctx, config)
	*config = *found
	return errors.Join(discoverErr, w.writeStatus(ctx, before, config))
}
