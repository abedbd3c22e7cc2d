// Package machine reconciles CapstanMachines: each claims one host of the inventory, waits until the host's agent has run the
// bootstrap data, and releases the host when it is deleted.
//
// The normal steps follow IM-41 to IM-56, the deletion steps IM-57 to IM-61. The claim stands in the host's spec, so
// everything here can be rebuilt from specs when a status is lost (IM-63).
package machine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/backend"
	"github.com/capstan-dev/capstan/provider/patch"
	"github.com/capstan-dev/capstan/provider/pause"
	"github.com/capstan-dev/capstan/provider/readyevent"
	"github.com/capstan-dev/capstan/provider/step"
	"github.com/capstan-dev/capstan/provider/watchfilter"
)

// Reconciler reconciles CapstanMachines. All fields are required, but Filter.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Reader reads from the API server: claims are decided on what is, not on what was.
	Reader client.Reader
	// Recorder records events of CapstanMachines.
	Recorder events.EventRecorder
	// Backends registers and deregisters control plane machines.
	Backends *backend.Keeper
	// Clock tells how old a CapstanMachine is.
	Clock clock.PassiveClock
	// Filter limits the CapstanMachines and CapstanHosts that this reconciler works on.
	Filter watchfilter.Filter

	// claiming is held while a host is picked and claimed, so that machines that wait together don't all run for the same host.
	claiming sync.Mutex
}

// Everything is written with patches. RB-01 and RB-02 ask for more on the provider's own types than is used. Secrets are read and written one
// by one, never listed or watched (RB-12). Nothing that is made here blocks the deletion of its owner, so no right to finalizers is needed
// (RB-10).
// +kubebuilder:rbac:groups=infrastructure.capstan.dev,resources=capstanmachines,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=infrastructure.capstan.dev,resources=capstanmachines/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=infrastructure.capstan.dev,resources=capstanhosts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.capstan.dev,resources=capstanclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create;update;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile brings one CapstanMachine a step further.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	m := &infrav1.CapstanMachine{}
	if err := r.Client.Get(ctx, request.NamespacedName, m); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !r.Filter.Matches(m) {
		return reconcile.Result{}, nil
	}
	s := &scope{capstan: m}
	steps := r.normal()
	if !m.DeletionTimestamp.IsZero() {
		steps = r.deletion()
	}
	result, err := step.Run(ctx, s, steps)
	if err == nil || s.wait != nil {
		after, statusErr := r.writeStatus(ctx, s)
		result = step.Sooner(result, after)
		if statusErr != nil {
			err = fmt.Errorf("write status: %w", statusErr)
		}
	}
	return step.Finish(result, err)
}

func (r *Reconciler) normal() []step.Step[*scope] {
	return []step.Step[*scope]{
		{Name: "owner", Run: r.owner},
		{Name: "pause", Run: r.pause},                                  // IM-64
		{Name: "owned", Run: r.owned},                                  // IM-41
		{Name: "reported failure", Run: r.reportedFailure},             // IM-42
		{Name: "cluster", Run: r.cluster},                              // IM-43
		{Name: "finalizer", Run: r.finalizer},                          // IM-44
		{Name: "cluster infrastructure", Run: r.clusterInfrastructure}, // IM-45
		{Name: "bootstrap data", Run: r.bootstrapData},                 // IM-48
		{Name: "claim a host", Run: r.claimHost},                       // IM-49
		{Name: "deliver bootstrap data", Run: r.deliver},               // IM-49
		{Name: "bootstrap report", Run: r.report},                      // IM-49
		{Name: "provider id", Run: r.providerID},                       // IM-52
		{Name: "provisioned", Run: r.provisioned},                      // IM-53 to IM-55
	}
}

func (r *Reconciler) deletion() []step.Step[*scope] {
	return []step.Step[*scope]{
		{Name: "held by us", Run: r.heldByUs},
		{Name: "owner", Run: r.owner},
		{Name: "pause", Run: r.pause}, // before anything is deleted: D-39
		{Name: "find the claim", Run: r.findClaim},
		{Name: "deregister", Run: r.deregister},                // IM-58
		{Name: "release the host", Run: r.release},             // IM-57, IM-59
		{Name: "remove the finalizer", Run: r.removeFinalizer}, // IM-60 to IM-62
	}
}

// writeStatus writes the whole status once, in one patch, if it differs (IM-56). It returns when to look again.
func (r *Reconciler) writeStatus(ctx context.Context, s *scope) (time.Duration, error) {
	if s.gone {
		return 0, nil
	}
	before := s.capstan.DeepCopy()
	switch {
	case s.paused != "":
		conditions.Set(s.capstan, pause.Condition(s.paused)) // and nothing else: IM-64
	case s.wait != nil && s.wait.short && step.Fresh(s.capstan, r.Clock.Now()):
		return step.Settle, nil
	default:
		conclude(s)
	}
	if err := patch.Status(ctx, r.Client, before, s.capstan, patch.Locked); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	readyevent.Record(r.Recorder, before, s.capstan)
	return 0, nil
}
