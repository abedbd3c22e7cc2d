package inside

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/backoff"
	"github.com/capstan-dev/capstan/provider/inventory"
)

// zones are the failure domains across which local hosts are spread.
var zones = []string{"zone-a", "zone-b", "zone-c"}

// lookAgain is the time until the next look at an unsettled inventory if no event arrives.
const lookAgain = 2 * time.Second

// registration shares the budget of local hosts among the namespaces that ask for hosts.
type registration struct{ keeper *inventory.Keeper }

// newRegistration returns a registration that shares budget hosts.
func newRegistration(mgr ctrl.Manager, register *inventory.Register, hosts supplier, budget int) (registration, error) {
	keeper, err := inventory.New(inventory.Options{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Register: register, Supplier: hosts,
		Budget: budget, Zones: zones, Clock: clock.RealClock{},
	})
	return registration{keeper}, err
}

// setup registers the controller with the manager. Any change to the existing hosts, or to the demand for hosts, starts
// a step. There is one inventory, so all changes enqueue the same request.
func (r registration) setup(mgr ctrl.Manager) error {
	event := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{}}
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("inventory").
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 1,
			UsePriorityQueue:        ptr.To(false), // like the provider's controllers
			RateLimiter:             pauses(),
		}).
		Watches(&infrav1.CapstanHost{}, event).
		Watches(&infrav1.CapstanMachine{}, event).
		Watches(&infrav1.CapstanCluster{}, event).
		Watches(&clusterv1.Cluster{}, event).
		Watches(&clusterv1.ClusterClass{}, event).
		Watches(&clusterv1.Machine{}, event).
		Watches(&clusterv1.MachineDeployment{}, event).
		Watches(&controlplanev1.KubeadmControlPlane{}, event).
		Watches(&corev1.Namespace{}, event). // one always exists, so this starts the first step
		Complete(r)
}

// pauses returns the rate limiter for steps that fail.
func pauses() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
		backoff.DefaultFirst, backoff.DefaultMax)
}

// Reconcile takes one step.
func (r registration) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	settled, err := r.keeper.Keep(ctx)
	if err != nil || settled {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: lookAgain}, nil
}
