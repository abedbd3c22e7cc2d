// Package cluster reconciles CapstanClusters: the control plane endpoint and the failure domains of a Cluster.
//
// The normal steps follow IC-44 to IC-52, the deletion steps IC-53 to IC-56.
package cluster

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/backend"
	"github.com/capstan-dev/capstan/provider/failure"
	"github.com/capstan-dev/capstan/provider/pause"
	"github.com/capstan-dev/capstan/provider/step"
	"github.com/capstan-dev/capstan/provider/watchfilter"
)

// Reconciler reconciles CapstanClusters. All fields are required, but Filter.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Recorder records events of CapstanClusters.
	Recorder events.EventRecorder
	// Backends makes balancers and sets their backends.
	Backends *backend.Keeper
	// Clock tells how old a CapstanCluster is.
	Clock clock.PassiveClock
	// Filter limits the CapstanClusters and CapstanHosts that this reconciler works on.
	Filter watchfilter.Filter

	// failures knows which clusters can't be brought further, and since when.
	failures failure.Streaks
	// promises knows in which zone each new cluster has a host.
	promises promises
}

// scope holds what one pass over one CapstanCluster has found out.
type scope struct {
	// capstan is the object itself, as new as the last write of this pass.
	capstan *infrav1.CapstanCluster
	// cluster is the owner; set by owner. Nil in a deletion: the owner is gone.
	cluster *clusterv1.Cluster
	// name of the Cluster; set by owner. The balancer is known by it.
	name types.NamespacedName
	// paused says why nothing is done. It begins with what the object's own annotation says; set by pause. Empty: not
	// paused.
	paused string
	// running is true when it is known that nothing is paused; set by pause.
	running bool
	// obstacle says why the endpoint isn't there.
	obstacle *step.Obstacle
	// domains are the failure domains; set by failureDomains.
	domains []clusterv1.FailureDomain
	// done is true when endpoint and failure domains are known.
	done bool
	// waiting says what a deletion waits for; set by machinesGone.
	waiting string
	// failed is the condition Reconciled of a pass that failed; set after the steps. Nil: none.
	failed *metav1.Condition
	// silent is true when there is no status to write: our finalizer is removed, or the object is so young that a wait
	// isn't worth a note.
	silent bool
}

// leaving reports whether the cluster is being deleted.
func leaving(s *scope) bool { return !s.capstan.DeletionTimestamp.IsZero() }

// RB-01 and RB-02 ask for more on the provider's own types than is used.
// +kubebuilder:rbac:groups=infrastructure.capstan.dev,resources=capstanclusters,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=infrastructure.capstan.dev,resources=capstanclusters/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=infrastructure.capstan.dev,resources=capstanhosts;capstanmachines,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile brings one CapstanCluster a step further.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	c := &infrav1.CapstanCluster{}
	if err := r.Client.Get(ctx, request.NamespacedName, c); err != nil {
		r.failures.Forget(request.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	// What was ours before somebody else took it over is cleaned up by us: our finalizer is on it, and the balancer is
	// ours.
	s := &scope{capstan: c, paused: pause.Why(nil, c)}
	ours := leaving(s) && controllerutil.ContainsFinalizer(c, infrav1.ClusterFinalizer)
	if !r.Filter.Matches(c) || externallyManaged(c) && !ours {
		return reconcile.Result{}, nil
	}
	result, err := step.Run(ctx, s, []step.Step[*scope]{
		{Name: "held by us", Run: r.heldByUs, When: leaving},
		{Name: "owner", Run: r.owner},
		{Name: "pause", Run: r.pause}, // IC-42; before anything is deleted: D-39

		{Name: "machines", Run: r.machinesGone, When: leaving},
		{Name: "delete the balancer", Run: r.deleteBalancer, When: leaving},   // IC-53, IC-54
		{Name: "remove the finalizer", Run: r.removeFinalizer, When: leaving}, // IC-55, IC-56; the last step of a deletion

		{Name: "owned", Run: r.owned},                    // IC-46
		{Name: "finalizer", Run: r.finalizer},            // IC-47
		{Name: "endpoint", Run: r.endpoint},              // IC-48, IC-49, IC-18
		{Name: "backends", Run: r.backends},              // IM-51
		{Name: "failure domains", Run: r.failureDomains}, // IC-51
		{Name: "provisioned", Run: r.provisioned},        // IC-50
	})
	return step.Finish(result, err, r.writeStatus(ctx, s, err))
}

// externallyManaged reports whether somebody else fills in the object. The annotation is what core looks at, the label
// is what the contract's text says: both count (D-03). Nothing of such an object is changed, not even its status
// (IC-34, IC-35, IC-45).
func externallyManaged(c *infrav1.CapstanCluster) bool {
	_, label := c.Labels[clusterv1.ManagedByAnnotation]
	return label || annotations.IsExternallyManaged(c)
}
