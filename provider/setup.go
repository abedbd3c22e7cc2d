package provider

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/backend"
	"github.com/capstan-dev/capstan/provider/cluster"
	"github.com/capstan-dev/capstan/provider/host"
	"github.com/capstan-dev/capstan/provider/identity"
	"github.com/capstan-dev/capstan/provider/machine"
	"github.com/capstan-dev/capstan/provider/metrics"
	"github.com/capstan-dev/capstan/provider/pace"
	"github.com/capstan-dev/capstan/provider/pool"
	"github.com/capstan-dev/capstan/provider/supply"
	"github.com/capstan-dev/capstan/provider/watchfilter"
	"github.com/capstan-dev/capstan/provider/workload"
)

// Interfaces that the provider expects others to implement. Local hosts and balancers are implemented elsewhere;
// without them the provider works with owned hosts and external endpoints.
type (
	// Balancer supplies control plane endpoints.
	Balancer = backend.Balancer
	// Supplier makes and destroys hosts.
	Supplier = supply.Supplier
	// AgentServer is how agents reach the API server.
	AgentServer = supply.AgentServer
)

// Defaults of Options.
const (
	DefaultConcurrency = 10
	// DefaultMachineConcurrency is higher than DefaultConcurrency because machines arrive in large numbers, and a
	// reconcile that claims a host spends most of its time waiting for the API server.
	DefaultMachineConcurrency = 64
	DefaultSupplyNamespace    = "default"
)

// retryAtMost is the longest pause between two attempts at a reconcile that fails.
const retryAtMost = 30 * time.Second

// Options configures Setup. The zero value works, with owned hosts and external endpoints only. To limit the
// namespaces, use the options of the manager's cache.
type Options struct {
	// Balancer creates the endpoints of CapstanClusters with loadBalancer.type Local. If nil, such clusters report in
	// their conditions that they are not supported.
	Balancer Balancer
	// Supplier creates the CapstanHosts with spec.supplier. If nil, such hosts never become ready.
	Supplier Supplier
	// SupplyNamespace returns the namespace of a supplied host. Default: DefaultSupplyNamespace for all of them.
	SupplyNamespace supply.NamespaceOf
	// Shortage is called when machines find no host in a namespace. It returns what happens next or what to do, or "" if
	// it has no advice. Optional.
	Shortage func(ctx context.Context, namespace string) string
	// AgentServer is how the agents of supplied hosts reach the API server. Required with Supplier.
	AgentServer AgentServer
	// Kubeconfig turns the kubeconfig of a workload cluster, which is untrusted text, into a client configuration. If nil,
	// Nodes that Cluster API does not know of are not deleted with their machines.
	Kubeconfig func(text []byte) (*rest.Config, error)
	// WatchFilter limits the provider to objects whose label cluster.x-k8s.io/watch-filter has this value (contract rule
	// IM-66). Empty means no limit.
	WatchFilter string
	// Concurrency is how many objects of each kind, except CapstanMachine, are reconciled at once. Default:
	// DefaultConcurrency.
	Concurrency int
	// MachineConcurrency is how many CapstanMachines are reconciled at once. Default: DefaultMachineConcurrency.
	MachineConcurrency int
	// PriorityQueue makes the controllers handle the most urgent work first, like Cluster API's feature gate of the same
	// name.
	PriorityQueue bool
	// HeartbeatTimeout is how long a host may go without a heartbeat before it counts as offline. Default:
	// host.DefaultHeartbeatTimeout.
	HeartbeatTimeout time.Duration
	// Proof is what must prove that an owned host is clean after a machine, unless spec.cleaning of the host says
	// otherwise. Default: Trust.
	Proof infrav1.CleaningProof
	// Bundles says where owned hosts get the programs of a node from, unless spec.bundles of the host or the host's own
	// configuration says otherwise. Default: the host's own programs if it has kubeadm and kubelet, else the plane's.
	Bundles infrav1.BundlePolicy
	// UnlinkedTimeout is how long the machine or the Cluster of a host's claim may be missing before the host is marked as
	// left behind. Default: host.DefaultUnlinkedTimeout.
	UnlinkedTimeout time.Duration
	// HostLimits limits how often hosts are claimed, given bootstrap data and released, and how often supplied hosts are
	// powered on and destroyed. Each operation is limited for all hosts together and for each host. Default: the limits of
	// package pace.
	HostLimits pace.Limits
	// Metrics is where the provider registers its metrics. If nil, nothing is measured.
	Metrics prometheus.Registerer
	// Clock is the source of time. Default: the real clock.
	Clock clock.PassiveClock
}

// AddToScheme adds all types that the provider reads or writes to the scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	return errors.Join(clientgoscheme.AddToScheme(scheme), clusterv1.AddToScheme(scheme), infrav1.AddToScheme(scheme))
}

// CacheByObject returns cache settings to merge into cache.Options.ByObject of the manager. They limit the cached
// Leases to those of hosts.
func CacheByObject() (map[client.Object]cache.ByObject, error) {
	ours, err := labels.NewRequirement(identity.Label, selection.Exists, nil)
	if err != nil {
		return nil, fmt.Errorf("selecting the Leases of hosts: %w", err)
	}
	return map[client.Object]cache.ByObject{&coordinationv1.Lease{}: {Label: labels.NewSelector().Add(*ours)}}, nil
}

// Setup registers the provider's controllers with the manager. Call AddToScheme on the manager's scheme first.
func Setup(ctx context.Context, mgr ctrl.Manager, options Options) error {
	if err := options.complete(); err != nil {
		return err
	}
	filter := watchfilter.Filter(options.WatchFilter)
	backends := &backend.Keeper{Reader: mgr.GetClient(), Balancer: options.Balancer}

	recorder, err := options.measure(mgr)
	if err != nil {
		return err
	}
	pacer := pace.New(options.HostLimits, options.Clock)
	clusters := &cluster.Reconciler{
		Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder("capstan"), Backends: backends, Clock: options.Clock,
		Filter: filter,
	}
	if err := clusters.Setup(ctx, mgr, options.controller(options.Concurrency)); err != nil {
		return fmt.Errorf("setting up the controller of CapstanClusters: %w", err)
	}
	machines := &machine.Reconciler{
		Client:   mgr.GetClient(),
		Reader:   mgr.GetAPIReader(),
		Hosts:    pool.New(mgr.GetAPIReader(), filter),
		Recorder: mgr.GetEventRecorder("capstan"),
		Backends: backends,
		Nodes:    options.nodes(mgr.GetAPIReader()),
		Clock:    options.Clock,
		Filter:   filter,
		Shortage: options.Shortage,
		Proof:    options.Proof,
		Bundles:  options.Bundles,
		Metrics:  recorder,
		Pace:     pacer,
	}
	if err := machines.Setup(mgr, options.controller(options.MachineConcurrency)); err != nil {
		return fmt.Errorf("setting up the controller of CapstanMachines: %w", err)
	}
	hosts := host.New(host.Options{
		Client:           mgr.GetClient(),
		Reader:           mgr.GetAPIReader(),
		Recorder:         mgr.GetEventRecorder("capstan"),
		Clock:            options.Clock,
		HeartbeatTimeout: options.HeartbeatTimeout,
		UnlinkedTimeout:  options.UnlinkedTimeout,
		Metrics:          recorder,
		Pace:             pacer,
		Filter:           filter,
		Supplier:         options.Supplier,
		SupplyNamespace:  options.SupplyNamespace,
		Agents:           options.AgentServer,
	})
	if err := hosts.Setup(mgr, options.controller(options.Concurrency)); err != nil {
		return fmt.Errorf("setting up the controller of CapstanHosts: %w", err)
	}
	return nil
}

// measure registers the provider's metrics if Options.Metrics is set.
func (o *Options) measure(mgr ctrl.Manager) (*metrics.Recorder, error) {
	if o.Metrics == nil {
		return nil, nil
	}
	inventory := metrics.NewInventory(mgr.GetClient(), watchfilter.Filter(o.WatchFilter), mgr.Elected())
	if err := o.Metrics.Register(inventory); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	return metrics.New(o.Metrics, o.Clock)
}

func (o *Options) complete() error {
	if o.Supplier != nil && (o.AgentServer.URL == "" || len(o.AgentServer.CAData) == 0) {
		return errors.New("a supplier of hosts needs Options.AgentServer with URL and CAData, so that agents reach the API " +
			"server")
	}
	if o.Concurrency < 0 || o.MachineConcurrency < 0 || o.HeartbeatTimeout < 0 || o.UnlinkedTimeout < 0 {
		return errors.New("Options.Concurrency, Options.MachineConcurrency, Options.HeartbeatTimeout and " +
			"Options.UnlinkedTimeout can't be negative; 0 means the default")
	}
	if err := o.HostLimits.Complete(); err != nil {
		return fmt.Errorf("Options.HostLimits: %w", err)
	}
	switch o.Proof {
	case "":
		o.Proof = infrav1.ProofTrust
	case infrav1.ProofTrust, infrav1.ProofCompare, infrav1.ProofReimage:
	default:
		return fmt.Errorf("Options.Proof can't be %q: give Trust, Compare or Reimage", o.Proof)
	}
	if o.Concurrency == 0 {
		o.Concurrency = DefaultConcurrency
	}
	if o.MachineConcurrency == 0 {
		o.MachineConcurrency = DefaultMachineConcurrency
	}
	if o.HeartbeatTimeout == 0 {
		o.HeartbeatTimeout = host.DefaultHeartbeatTimeout
	}
	if o.UnlinkedTimeout == 0 {
		o.UnlinkedTimeout = host.DefaultUnlinkedTimeout
	}
	if o.SupplyNamespace == nil {
		o.SupplyNamespace = supply.In(DefaultSupplyNamespace)
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return nil
}

// nodes returns the deleter of Nodes in workload clusters, or nil if there is none.
func (o *Options) nodes(secrets client.Reader) machine.Nodes {
	if o.Kubeconfig == nil {
		return nil
	}
	return &workload.Nodes{Reader: secrets, Config: o.Kubeconfig}
}

// controller returns the options of a controller. The priority queue is off by default: in controller-runtime 0.24 it
// can deadlock during shutdown (its issue 3538). A stopping manager would then wait for its whole grace period and
// report a failure.
func (o *Options) controller(workers int) controller.Options {
	return controller.Options{
		UsePriorityQueue:        ptr.To(o.PriorityQueue),
		MaxConcurrentReconciles: workers,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](5*time.Millisecond,
			retryAtMost),
	}
}
