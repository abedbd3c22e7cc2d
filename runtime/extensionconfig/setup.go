package extensionconfig

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

const (
	// The first and the last delay between attempts to discover an extension that fails. The usual limit of
	// controllers, a quarter of an hour, would be too long for somebody who has just repaired the extension.
	firstRetry   = 100 * time.Millisecond
	longestRetry = time.Minute

	// stalePause is the delay before discovering an extension that was probably redeployed. It limits how often a broken
	// extension is discovered.
	stalePause = 500 * time.Millisecond
)

// SetupWithManager adds the controller to a manager, and a runnable that fills the client's registry at startup. The
// manager's scheme must include ExtensionConfigs.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	if err := r.complete(); err != nil {
		return err
	}
	if options.RateLimiter == nil {
		options.RateLimiter = workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, longestRetry)
	}
	// Only this controller writes the status, so status changes need no new discovery.
	changed := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{},
		predicate.LabelChangedPredicate{})
	b := ctrl.NewControllerManagedBy(mgr).
		Named("extensionconfig").
		For(&runtimev1.ExtensionConfig{}, builder.WithPredicates(changed)).
		WithOptions(options).
		WatchesRawSource(r.stale())
	if r.SecretNames != nil {
		b = b.WatchesRawSource(source.Kind(r.SecretNames,
			&metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}},
			handler.TypedEnqueueRequestsFromMapFunc(r.usersOf), contentChanged{}))
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("adding the controller of ExtensionConfigs: %w", err)
	}
	if err := mgr.Add(warmUp{r}); err != nil {
		return fmt.Errorf("adding the start of the controller of ExtensionConfigs: %w", err)
	}
	return nil
}

// stale is the source of extensions that the client assumes to have been redeployed.
func (r *Reconciler) stale() source.Source {
	tells, ok := r.Runtime.(interface{ OnStale(func(extension string)) })
	if !ok {
		return source.Func(func(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			return nil
		})
	}
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		// The queue keeps one entry for each extension, so a thousand failing calls cause one discovery.
		tells.OnStale(func(extension string) {
			queue.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: extension}}, stalePause)
		})
		return nil
	})
}

// usersOf returns the ExtensionConfigs whose CA certificate comes from a Secret.
func (r *Reconciler) usersOf(ctx context.Context, secret *metav1.PartialObjectMetadata) []reconcile.Request {
	list := &runtimev1.ExtensionConfigList{}
	if err := r.Client.List(ctx, list); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "A changed Secret could not be matched to ExtensionConfigs", "Secret",
			ctrlclient.ObjectKeyFromObject(secret))
		return nil
	}
	var users []reconcile.Request
	for i := range list.Items {
		if list.Items[i].Annotations[runtimev1.InjectCAFromSecretAnnotation] == secret.Namespace+"/"+secret.Name {
			users = append(users, reconcile.Request{NamespacedName: types.NamespacedName{Name: list.Items[i].Name}})
		}
	}
	return users
}

// contentChanged drops events of Secrets that merely repeat the previous state.
type contentChanged struct {
	predicate.TypedFuncs[*metav1.PartialObjectMetadata]
}

// Update implements predicate.TypedPredicate.
func (contentChanged) Update(e event.TypedUpdateEvent[*metav1.PartialObjectMetadata]) bool {
	return e.ObjectOld.ResourceVersion != e.ObjectNew.ResourceVersion
}
