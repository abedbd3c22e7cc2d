// Package cluster reconciles CapstanClusters, which provide the control plane endpoint and the failure domains of a
// Cluster.
//
// Ids such as IC-44 name rules of Cluster API's contract for infrastructure clusters. The normal steps follow IC-44 to
// IC-52, the deletion steps IC-53 to IC-56. A pass is one reconcile of one object; it runs the steps in order, until
// one of them stops it.
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

// Reconciler reconciles CapstanClusters. All fields are required except Filter.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Recorder records Events about CapstanClusters.
	Recorder events.EventRecorder
	// Backends creates balancers and sets their backends.
	Backends *backend.Keeper
	// Clock is the source of time.
	Clock clock.PassiveClock
	// Filter limits the CapstanClusters and CapstanHosts that this reconciler handles. Empty means no limit.
	Filter watchfilter.Filter

	// failures records which clusters fail to reconcile, and since when.
	failures failure.Streaks
	// promises records in which zone each new cluster is promised a host.
	promises promises
}

// scope holds what one pass over one CapstanCluster has found out.
type scope struct {
	// capstan is the object itself, including the last write of this pass.
	capstan *infrav1.CapstanCluster
	// cluster is the owner; set by owner. Nil if it does not exist, for example late in a deletion.
	cluster *clusterv1.Cluster
	// name is the name of the Cluster, after which the balancer is named; set by owner.
	name types.NamespacedName
	// paused says why the object is paused; "" if it is not. At first it only reflects the object's own annotation; the
	// step pause also considers the Cluster.
	paused string
	// running is true once the step pause has found that neither the Cluster nor the object is paused.
	running bool
	// obstacle is why there is no endpoint yet.
	obstacle *step.Obstacle
	// domains are the failure domains; set by failureDomains.
	domains []clusterv1.FailureDomain
	// done is true once the endpoint and the failure domains are known.
	done bool
	// waiting says what a deletion waits for; set by machinesGone.
	waiting string
	// failed is the condition Reconciled of a failed pass, or nil; set after the steps.
	failed *metav1.Condition
	// silent is true if there is no status to write: our finalizer is removed, or the object is too new to report a wait.
	silent bool
}

// leaving reports whether the cluster is being deleted.
func leaving(s *scope) bool { return !s.capstan.DeletionTimestamp.IsZero() }

// The contract rules RB-01 and RB-02 require more rights to the provider's own types than the provider uses.
// +kubebuilder:rbac:groups=infrastructure.capstan.dev,resources=capstanclusters,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=infrastructure.capstan.dev,resources=capstanclusters/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=infrastructure.capstan.dev,resources=capstanhosts;capstanmachines,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile makes one pass over a CapstanCluster.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	c := &infrav1.CapstanCluster{}
	if err := r.Client.Get(ctx, request.NamespacedName, c); err != nil {
		r.failures.Forget(request.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	// If somebody else took over a cluster that was ours, we still clean it up: it has our finalizer, and the balancer is
	// ours.
	s := &scope{capstan: c, paused: pause.Why(nil, c)}
	ours := leaving(s) && controllerutil.ContainsFinalizer(c, infrav1.ClusterFinalizer)
	if !r.Filter.Matches(c) || externallyManaged(c) && !ours {
		return reconcile.Result{}, nil
	}
	result, err := step.Run(ctx, s, []step.Step[*scope]{
		{Name: "held by our finalizer", Run: r.heldByUs, When: leaving},
		{Name: "owner", Run: r.owner},
		{Name: "pause", Run: r.pause}, // IC-42; comes before anything is deleted

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

// externallyManaged reports whether somebody else manages the object. Cluster API checks the annotation, while the text
// of the contract names a label, so both count. We change nothing in such an object, not even its status (IC-34, IC-35,
// IC-45).
func externallyManaged(c *infrav1.CapstanCluster) bool {
	_, label := c.Labels[clusterv1.ManagedByAnnotation]
	return label || annotations.IsExternallyManaged(c)
}
