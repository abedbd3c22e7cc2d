// Package machine reconciles CapstanMachines. Each machine claims one host of the inventory, waits until the host's
// agent has run the bootstrap data, and releases the host when the machine is deleted.
//
// Ids such as IM-41 name rules of Cluster API's contract for infrastructure machines. The normal steps follow IM-41 to
// IM-56, the deletion steps IM-57 to IM-61. The claim is in the host's spec, so a lost status can be rebuilt from specs
// (IM-63). A pass is one reconcile of one object; it runs the steps in order, until one of them stops it.
package machine

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/backend"
	"github.com/capstan-dev/capstan/provider/failure"
	"github.com/capstan-dev/capstan/provider/metrics"
	"github.com/capstan-dev/capstan/provider/pace"
	"github.com/capstan-dev/capstan/provider/pause"
	"github.com/capstan-dev/capstan/provider/pool"
	"github.com/capstan-dev/capstan/provider/step"
	"github.com/capstan-dev/capstan/provider/watchfilter"
)

// Reconciler reconciles CapstanMachines. All fields are required unless noted.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Reader reads Secrets, and hosts that a cache may not show yet, from the API server.
	Reader client.Reader
	// Hosts is the inventory. It must have the same Filter, and must also read from the API server, not from a cache.
	Hosts *pool.Pool
	// Recorder records Events about CapstanMachines.
	Recorder events.EventRecorder
	// Backends registers and deregisters control plane machines.
	Backends *backend.Keeper
	// Nodes deletes Nodes that Cluster API does not know of. If nil, they stay.
	Nodes Nodes
	// Clock is the source of time.
	Clock clock.PassiveClock
	// Filter limits the CapstanMachines and CapstanHosts that this reconciler handles. Empty means no limit.
	Filter watchfilter.Filter

	// Proof is what must prove that a host is clean, unless spec.cleaning of the host says otherwise.
	Proof infrav1.CleaningProof
	// Bundles says where hosts get the programs of a node from, unless spec.bundles of the host says otherwise.
	Bundles infrav1.BundlePolicy
	// Shortage returns, for a namespace without a free host, what happens next or what to do; "" means no special advice.
	// Optional.
	Shortage func(ctx context.Context, namespace string) string

	// Metrics measures what happens to machines. If nil, nothing is measured.
	Metrics *metrics.Recorder
	// Pace limits how often hosts are claimed, released and given bootstrap data. Nil means no limit.
	Pace *pace.Pacer

	// failures records which machines fail to reconcile, and since when.
	failures failure.Streaks
	// replacing records when the next failed machine of a group may be replaced.
	replacing replacing
}

// All objects except Secrets are written with patches. The contract rules RB-01 and RB-02 require more rights to the
// provider's own types than the provider uses. Secrets are read and written one by one, never listed or watched
// (RB-12). Nothing that the controller creates blocks the deletion of its owner, so no right to finalizers is needed
// (RB-10). Bootstrap configurations are read one by one, and only their metadata, to find their owners. The kinds below
// are those of the known bootstrap providers. Any other provider needs a ClusterRole that lets the manager get its
// kind; until then its machines report which right is missing.
// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=kubeadmconfigs;k0scontrollerconfigs;k0sworkerconfigs,verbs=get
// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=kthreesconfigs;microk8sconfigs;rke2configs;talosconfigs,verbs=get
// +kubebuilder:rbac:groups=infrastructure.capstan.dev,resources=capstanmachines,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=infrastructure.capstan.dev,resources=capstanmachines/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=infrastructure.capstan.dev,resources=capstanmachines/providerid,verbs=assign
// +kubebuilder:rbac:groups=infrastructure.capstan.dev,resources=capstanhosts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.capstan.dev,resources=capstanclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create;update;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile makes one pass over a CapstanMachine.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	defer r.Hosts.Begin(request.NamespacedName)()
	m := &infrav1.CapstanMachine{}
	if err := r.Client.Get(ctx, request.NamespacedName, m); err != nil {
		r.failures.Forget(request.NamespacedName)
		if apierrors.IsNotFound(err) {
			r.Hosts.Forget(request.NamespacedName)
			r.Metrics.MachineGone(request.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !r.Filter.Matches(m) {
		return reconcile.Result{}, nil
	}
	s := &scope{capstan: m, paused: pause.Why(nil, m)}
	result, err := step.Run(ctx, s, []step.Step[*scope]{
		{Name: "held by our finalizer", Run: r.heldByUs, When: leaving},
		{Name: "owner", Run: r.owner},
		{Name: "pause", Run: r.pause}, // IM-64; comes before anything is deleted

		{Name: "find the claim", Run: r.find, When: leaving},
		{Name: "deregister", Run: r.deregister, When: leaving},    // IM-58
		{Name: "release the host", Run: r.release, When: leaving}, // IM-57, IM-59
		{Name: "remove the Node", Run: r.removeNode, When: leaving},
		{Name: "remove the finalizer", Run: r.removeFinalizer, When: leaving}, // IM-60 to IM-62; the last step of a deletion

		{Name: "owned", Run: r.owned},                                  // IM-41
		{Name: "reported failure", Run: r.reportedFailure},             // IM-42
		{Name: "cluster", Run: r.cluster},                              // IM-43
		{Name: "finalizer", Run: r.finalizer},                          // IM-44
		{Name: "cluster infrastructure", Run: r.clusterInfrastructure}, // IM-45
		{Name: "bootstrap data", Run: r.dataNamed},                     // IM-48
		{Name: "find the host", Run: r.find},
		{Name: "place", Run: r.place}, // IM-17
		{Name: "read the bootstrap data", Run: r.readData},
		{Name: "claim a host", Run: r.claimHost}, // IM-49
		{Name: "keep one host", Run: r.keep},
		{Name: "deliver the bootstrap data", Run: r.deliver}, // IM-49
		{Name: "bootstrap report", Run: r.report},            // IM-49, IM-50
		{Name: "provider id", Run: r.providerID},             // IM-52
		{Name: "provisioned", Run: r.provisioned},            // IM-53 to IM-55
	})
	after, statusErr := r.writeStatus(ctx, s, err)
	return step.Finish(step.Sooner(result, after), err, statusErr)
}
