// Package host reconciles CapstanHosts: it gives each host's agent an identity, powers supplied hosts on and destroys them, clears claims
// once the host is proved clean, and watches heartbeats.
package host

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/patch"
	"github.com/capstan-dev/capstan/provider/pause"
	"github.com/capstan-dev/capstan/provider/readyevent"
	"github.com/capstan-dev/capstan/provider/step"
	"github.com/capstan-dev/capstan/provider/supply"
	"github.com/capstan-dev/capstan/provider/watchfilter"
)

// Reconciler reconciles CapstanHosts. Make it with New.
type Reconciler struct {
	Options
	beats *heartbeats

	mu sync.Mutex
	// identities holds how much of each host's identity was applied by this process, by uid of the host.
	identities map[types.UID]extent
	// powered holds what this process did last with the power of supplied hosts. What is not in it is unknown: found out, or done again.
	powered map[types.UID]power
}

// Options are what a Reconciler needs. All are required, but Supplier, SupplyNamespace and Agents (no supplied hosts) and Filter.
type Options struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Reader reads Secrets from the API server.
	Reader client.Reader
	// Recorder records events of CapstanHosts.
	Recorder events.EventRecorder
	// Clock measures the time between heartbeats. It should be monotonic; it is never compared with a host's clock.
	Clock Clock
	// HeartbeatTimeout is how long a host may be silent.
	HeartbeatTimeout time.Duration
	// Filter limits the CapstanHosts that this reconciler works on.
	Filter watchfilter.Filter
	// Supplier makes the hosts that have spec.supplier. Nil: there are none here.
	Supplier supply.Supplier
	// SupplyNamespace is the only namespace with supplied hosts: a Supplier knows hosts by name alone.
	SupplyNamespace string
	// Agents is where the agents of supplied hosts reach the API server.
	Agents supply.AgentServer
}

// New returns a reconciler.
func New(options Options) *Reconciler {
	return &Reconciler{
		Options:    options,
		beats:      newHeartbeats(options.Clock, options.HeartbeatTimeout),
		identities: map[types.UID]extent{},
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
	// trouble says why a supplied host can't be powered on or destroyed.
	trouble *trouble
	// orphaned is true if the machine that claims the host doesn't exist.
	orphaned bool
	// gone is true when our finalizer is removed: there is no status to write any more.
	gone bool
}

// trouble is a reason and message for condition Ready.
type trouble struct{ reason, message string }

// The agents' roles grant what stands here for own objects, and nobody can grant what he may not do himself: that is why there are rights
// here that the controller itself does not use.
// +kubebuilder:rbac:groups=infrastructure.capstan.dev,resources=capstanhosts,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=infrastructure.capstan.dev,resources=capstanhosts/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=infrastructure.capstan.dev,resources=capstanmachines,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=create;patch;delete
// +kubebuilder:rbac:groups="",resources=serviceaccounts/token,verbs=create
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=create;patch;delete
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile brings one CapstanHost a step further.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	h := &infrav1.CapstanHost{}
	if err := r.Client.Get(ctx, request.NamespacedName, h); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !r.Filter.Matches(h) {
		return reconcile.Result{}, nil
	}
	s := &scope{host: h}
	result, err := step.Run(ctx, s, r.steps())
	if err == nil || s.trouble != nil {
		if statusErr := r.writeStatus(ctx, s); statusErr != nil && err == nil {
			err = fmt.Errorf("write status: %w", statusErr)
		}
		result = step.Sooner(result, s.again)
	}
	return step.Finish(result, err)
}

// steps are the same for a host that is being deleted: it is worked for until its claim is cleared.
func (r *Reconciler) steps() []step.Step[*scope] {
	return []step.Step[*scope]{
		{Name: "pause", Run: r.pause},
		{Name: "finalizer", Run: r.finalizer},
		{Name: "identity", Run: r.identity},
		{Name: "handover", Run: r.handover},
		{Name: "heartbeat", Run: r.heartbeat},
		{Name: "end the claim", Run: r.endClaim},
		{Name: "power", Run: r.power},
		{Name: "claimant", Run: r.claimant},
		{Name: "delete", Run: r.delete},
	}
}

// pause stops at a host with the annotation cluster.x-k8s.io/paused. Clusters that are paused don't pause hosts: a host belongs to nobody.
func (r *Reconciler) pause(_ context.Context, s *scope) (step.Answer, error) {
	if annotations.HasPaused(s.host) {
		s.paused = pause.Why(nil, s.host)
		return step.Stop(), nil
	}
	return step.Next(), nil
}

// writeStatus writes what this controller concludes, in one patch, if it differs.
func (r *Reconciler) writeStatus(ctx context.Context, s *scope) error {
	if s.gone {
		return nil
	}
	before := s.host.DeepCopy()
	if s.paused != "" {
		conditions.Set(s.host, pause.Condition(s.paused))
	} else {
		conditions.Delete(s.host, clusterv1.PausedCondition)
		conclude(s.host, r.facts(s))
	}
	if err := patch.Status(ctx, r.Client, before, s.host, patch.Locked); err != nil {
		return client.IgnoreNotFound(err)
	}
	readyevent.Record(r.Recorder, before, s.host)
	return nil
}

func (r *Reconciler) facts(s *scope) facts {
	f := facts{live: s.live, orphaned: s.orphaned, trouble: s.trouble, timeout: r.HeartbeatTimeout}
	if r.supplies(s.host) {
		f.versions = r.Supplier.Versions()
	}
	return f
}

// supplies reports whether our supplier makes the host.
func (r *Reconciler) supplies(host *infrav1.CapstanHost) bool {
	return host.Spec.Supplier != "" && r.Supplier != nil && host.Namespace == r.SupplyNamespace
}

func yes(kind, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: message}
}

func no(kind, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}
