// Package host reconciles CapstanHosts. It gives each host's agent an identity, powers on and destroys supplied hosts,
// clears claims once the host is proved clean, and watches heartbeats. A pass is one reconcile of one host.
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

// Reconciler reconciles CapstanHosts. Create it with New.
type Reconciler struct {
	Options
	beats *heartbeats
	// failures records which hosts fail to reconcile, and since when.
	failures failure.Streaks

	// draining is held while a pass decides on and deletes a Machine for a drain.
	draining sync.Mutex

	mu sync.Mutex
	// identities holds what this process knows about each host's identity, by uid of the host.
	identities map[types.UID]identityState
	// lostLeases holds the hosts whose Lease must be recreated.
	lostLeases map[types.NamespacedName]bool
	// powered holds the last power operation of this process on each supplied host, by uid of the host. For a host without
	// a record, the operation is repeated.
	powered map[types.UID]power
}

// Options configures a Reconciler. All fields are required except Metrics, Pace, Filter, and those for supplied hosts:
// Supplier, SupplyNamespace and Agents.
type Options struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Reader reads objects from the API server, without a cache.
	Reader client.Reader
	// Recorder records Events about CapstanHosts.
	Recorder events.EventRecorder
	// Clock measures the time between heartbeats. It should be monotonic; it is never compared with a host's clock.
	Clock Clock
	// HeartbeatTimeout is how long a host may go without a heartbeat before it counts as offline.
	HeartbeatTimeout time.Duration
	// UnlinkedTimeout is how long the machine or the Cluster of a claim may be missing before the host counts as left
	// behind.
	UnlinkedTimeout time.Duration
	// Metrics measures what happens to hosts. If nil, nothing is measured.
	Metrics *metrics.Recorder
	// Pace limits how often hosts are powered on and destroyed. Nil means no limit.
	Pace *pace.Pacer
	// Filter limits the CapstanHosts that this reconciler handles. Empty means no limit.
	Filter watchfilter.Filter
	// Supplier creates the hosts that have spec.supplier. If nil, such hosts never become ready.
	Supplier supply.Supplier
	// SupplyNamespace returns the namespace of a supplied host.
	SupplyNamespace supply.NamespaceOf
	// Agents is how the agents of supplied hosts reach the API server.
	Agents supply.AgentServer
}

// New returns a Reconciler.
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
	// host is the object itself, including the last write of this pass.
	host *infrav1.CapstanHost
	// paused says why the host is paused; "" if it is not.
	paused string
	// live says whether heartbeats arrive; set by heartbeat.
	live liveness
	// again is how soon the next pass must follow, for example because liveness can change without an event; 0 means that
	// none is needed.
	again time.Duration
	// obstacle says why the host can't be powered on or destroyed, or get its identity; it goes into condition Ready.
	obstacle *step.Obstacle
	// taken is true if somebody else's objects have names that the host needs; set by identity and epoch.
	taken bool
	// orphaned is true if the machine that claims the host doesn't exist; set by claimant.
	orphaned bool
	// unlinked is not nil if the claim belongs to no Cluster; set by link.
	unlinked *unlinked
	// drain is what the drain of the host waits for, or nil if there is nothing to drain; set by drain.
	drain *step.Obstacle
	// failed is the condition Reconciled of a failed pass, or nil; set after the steps.
	failed *metav1.Condition
	// gone is true once our finalizer is removed: there is no status left to write.
	gone bool
}

// sooner requests another pass after d at the latest.
func (s *scope) sooner(d time.Duration) {
	if s.again == 0 || d < s.again {
		s.again = d
	}
}

// The controller grants agents rights to their own objects, and RBAC only lets it grant rights that it has. So the list
// below includes rights that the controller itself does not use.
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

// Reconcile makes one pass over a CapstanHost.
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
	// A host that is being deleted goes through the same steps: its machine needs it until the claim is cleared.
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
