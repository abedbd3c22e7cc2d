// Package host reconciles CapstanHosts: it gives each host's agent an identity, powers supplied hosts on and destroys
// them, clears claims once the host is proved clean, and watches heartbeats.
package host

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/failure"
	"github.com/capstan-dev/capstan/provider/metrics"
	"github.com/capstan-dev/capstan/provider/pace"
	"github.com/capstan-dev/capstan/provider/step"
	"github.com/capstan-dev/capstan/provider/supply"
	"github.com/capstan-dev/capstan/provider/watchfilter"
)

// Reconciler reconciles CapstanHosts. Make it with New.
type Reconciler struct {
	Options
	beats *heartbeats
	// failures knows which hosts can't be brought further, and since when.
	failures failure.Streaks

	// draining is held while a Machine is judged and deleted for a drain.
	draining sync.Mutex

	mu sync.Mutex
	// identities holds what this process knows of each host's identity, by uid of the host.
	identities map[types.UID]identityState
	// lostLeases are the hosts whose Lease is to be made again.
	lostLeases map[types.NamespacedName]bool
	// powered holds what this process did last with the power of supplied hosts. What is not in it is unknown: found out,
	// or done again.
	powered map[types.UID]power
}

// Options are what a Reconciler needs. All are required, but Supplier, SupplyNamespace and Agents (no supplied hosts),
// Metrics, Pace and Filter.
type Options struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Reader reads the objects of hosts from the API server, without a cache.
	Reader client.Reader
	// Recorder records events of CapstanHosts.
	Recorder events.EventRecorder
	// Clock measures the time between heartbeats. It should be monotonic; it is never compared with a host's clock.
	Clock Clock
	// HeartbeatTimeout is how long a host may be silent.
	HeartbeatTimeout time.Duration
	// UnlinkedTimeout is how long a claim may belong to no Cluster before it counts as left behind.
	UnlinkedTimeout time.Duration
	// Metrics measures what happens to hosts. Nil: nothing is measured.
	Metrics *metrics.Recorder
	// Pace limits how often hosts are powered on and destroyed. Nil: no limit.
	Pace *pace.Pacer
	// Filter limits the CapstanHosts that this reconciler works on.
	Filter watchfilter.Filter
	// Supplier makes the hosts that have spec.supplier. Nil: there are none here.
	Supplier supply.Supplier
	// SupplyNamespace says in which namespace a supplied host is.
	SupplyNamespace supply.NamespaceOf
	// Agents is where the agents of supplied hosts reach the API server.
	Agents supply.AgentServer
}

// New returns a reconciler.
func New(options Options) *Reconciler {
	return &Reconciler{
		Options:    options,
		beats:      newHeartbeats(options.Clock, options.HeartbeatTimeout),
		identities: map[types.UID]identityState{},
		lostLeases: map[types.NamespacedName]bool{},
		powered:    map[types.UID]power{},
	}
}

// scope holds what one pass over one CapstanHost has found out.
type scope struct {
	// host is the object itself, as new as the last write of this pass.
	host *infrav1.CapstanHost
	// paused says why nothing is done. Empty: not paused.
	paused string
	// live tells whether heartbeats arrive; set by heartbeat.
	live liveness
	// again is when liveness can change without an event; set by heartbeat.
	again time.Duration
	// obstacle says why a supplied host can't be powered on or destroyed; it goes into condition Ready.
	obstacle *step.Obstacle
	// taken is true if others have names that the host needs; set by identity.
	taken bool
	// orphaned is true if the machine that claims the host doesn't exist.
	orphaned bool
	// unlinked is set if the claim belongs to no Cluster; set by link.
	unlinked *unlinked
	// drain is what the drain of the host waits for; set by drain. Nil: there is nothing to drain.
	drain *step.Obstacle
	// failed is the condition Reconciled of a pass that failed; set after the steps. Nil: none.
	failed *metav1.Condition
	// gone is true when our finalizer is removed: there is no status to write any more.
	gone bool
}

// sooner asks for another pass in d at the latest.
func (s *scope) sooner(d time.Duration) {
	if s.again == 0 || d < s.again {
		s.again = d
	}
}

// The agents' roles grant what stands here for own objects, and nobody can grant what he may not do himself: that is
// why there are rights here that the controller itself does not use.
// +kubebuilder:rbac:groups=infrastructure.capstan.dev,resources=capstanhosts,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=infrastructure.capstan.dev,resources=capstanhosts/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=infrastructure.capstan.dev,resources=capstanhosts/claim;capstanhosts/handover,verbs=assign
// +kubebuilder:rbac:groups=infrastructure.capstan.dev,resources=capstanmachines,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups="",resources=serviceaccounts/token,verbs=create
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create;update;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile brings one CapstanHost a step further.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	h := &infrav1.CapstanHost{}
	if err := r.Client.Get(ctx, request.NamespacedName, h); err != nil {
		r.failures.Forget(request.NamespacedName)
		if apierrors.IsNotFound(err) {
			r.forgetPower(request.NamespacedName)
			r.forgetLease(request.NamespacedName)
			r.Metrics.HostGone(request.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !r.Filter.Matches(h) {
		return reconcile.Result{}, nil
	}
	s := &scope{host: h}
	// The steps are the same for a host that is being deleted: it is worked for until its claim is cleared.
	result, err := step.Run(ctx, s, []step.Step[*scope]{
		{Name: "pause", Run: r.pause},
		{Name: "finalizer", Run: r.finalizer},
		{Name: "identity", Run: r.identity},
		{Name: "epoch", Run: r.epoch},
		{Name: "handover", Run: r.handover},
		{Name: "heartbeat", Run: r.heartbeat},
		{Name: "baseline", Run: r.baseline},
		{Name: "end the claim", Run: r.endClaim},
		{Name: "power", Run: r.power},
		{Name: "claimant", Run: r.claimant},
		{Name: "link", Run: r.link}, // SG-05
		{Name: "drain", Run: r.drain},
		{Name: "delete", Run: r.delete},
	})
	statusErr := r.writeStatus(ctx, s, err)
	if s.taken {
		result = step.Sooner(result, takenPause)
	}
	return step.Finish(step.Sooner(result, s.again), err, statusErr)
}

// supplies reports whether our supplier makes the host.
func (r *Reconciler) supplies(host *infrav1.CapstanHost) bool {
	return host.Spec.Supplier != "" && r.Supplier != nil && host.Namespace == r.SupplyNamespace(host.Name)
}
