package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/backend"
	"github.com/capstan-dev/capstan/provider/cluster"
	"github.com/capstan-dev/capstan/provider/host"
	"github.com/capstan-dev/capstan/provider/machine"
	"github.com/capstan-dev/capstan/provider/pool"
	"github.com/capstan-dev/capstan/provider/supply"
)

const ns = "default"

// fault says what happens to one of the provider's calls to the API server, the supplier or the balancer.
type fault int

const (
	works      fault = iota
	refused          // the call fails and has no effect
	answerLost       // the call takes effect, but fails
	conflict         // the API server says that the object has changed in between; no effect
	tooMany          // the API server answers 429; no effect
	timedOut         // the API server times out after the effect
)

// answer returns the error of a fault, or nil if there is none.
func (f fault) answer(name string) error {
	resource := schema.GroupResource{Group: infrav1.GroupVersion.Group, Resource: name}
	switch f {
	case refused:
		return fmt.Errorf("%s: %w", name, errInjected)
	case answerLost:
		return fmt.Errorf("%s: %w after it had its effect", name, errInjected)
	case conflict:
		return fmt.Errorf("%w: %w", errInjected, apierrors.NewConflict(resource, name,
			errors.New("the object has been modified")))
	case tooMany:
		return fmt.Errorf("%w: %w", errInjected, apierrors.NewTooManyRequests("slow down", 1))
	case timedOut:
		return fmt.Errorf("%w: %w", errInjected, apierrors.NewTimeoutError("the request did not complete in time", 1))
	default:
		return nil
	}
}

var errInjected = errors.New("injected fault")

// world is a management cluster without real time or a real network: an API server in memory, the three reconcilers, a
// supplier, a balancer, agents, and the parts of Cluster API that the provider interacts with. Each of the provider's
// calls can be made to fail.
type world struct {
	t      *testing.T
	api    client.WithWatch // without faults
	clock  *clocktesting.FakePassiveClock
	inject func(call int) fault
	broken string // the calls of this name are refused
	calls  int
	writes []int    // numbers of the calls that change something
	log    []string // the names of these calls

	clusters *cluster.Reconciler
	machines *machine.Reconciler
	hosts    *host.Reconciler

	running  map[string]bool     // hosts that the supplier has
	backends map[string][]string // clusters that the balancer has
	fails    map[string]string   // hosts on which the bootstrap data fails, and the messages
	stuck    map[string][]string // hosts on which cleaning leaves something, and what
	dead     map[string]bool     // hosts whose agent is silent
	provided map[types.UID]bool  // machines that were provisioned once

	journal map[string]*infrav1.BootstrapReport // what the agents have done, by provider id
	tokens  map[types.UID]int64                 // epochs of the tokens of owned hosts' agents

	pool *pool.Pool
	seen map[string]*infrav1.CapstanHost // what the watch of hosts has shown

	filter string
	moved  bool // objects came from another world, so addresses arrive after the rest
	// proof is the provider's option. If oldAgents is set, agents don't support it. If exchanged is set, the baselines on
	// the hosts were replaced, so agents don't compare with the baseline of the claim.
	proof                infrav1.CleaningProof
	oldAgents, exchanged bool
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{
		t:        t,
		clock:    clocktesting.NewFakePassiveClock(time.Now()),
		api:      newAPI(t, objects...),
		inject:   func(int) fault { return works },
		running:  map[string]bool{},
		backends: map[string][]string{},
		fails:    map[string]string{},
		stuck:    map[string][]string{},
		dead:     map[string]bool{},
		provided: map[types.UID]bool{},
		journal:  map[string]*infrav1.BootstrapReport{},
		tokens:   map[types.UID]int64{},
	}
	w.restart()
	return w
}

// newAPI returns an API server in memory with these objects.
func newAPI(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	// Don't use AddToScheme here: the client in memory searches the whole scheme for every write.
	for _, add := range []func(*runtime.Scheme) error{
		infrav1.AddToScheme, clusterv1.AddToScheme, corev1.AddToScheme, rbacv1.AddToScheme, coordinationv1.AddToScheme,
		authenticationv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(
		&infrav1.CapstanCluster{}, &infrav1.CapstanMachine{}, &infrav1.CapstanHost{}, &clusterv1.Cluster{},
		&clusterv1.Machine{},
	).Build()
}

// restart creates new reconcilers, as if the provider had been killed and started again.
func (w *world) restart() {
	c := interceptor.NewClient(w.api, w.funcs())
	recorder := events.NewFakeRecorder(10000)
	backends := &backend.Keeper{Reader: c, Balancer: balancer{w}}
	options := Options{
		WatchFilter: w.filter, Supplier: supplier{w}, AgentServer: AgentServer{URL: "https://x", CAData: []byte("x")},
		Clock: w.clock,
	}
	if err := options.complete(); err != nil {
		w.t.Fatal(err)
	}
	w.clusters = &cluster.Reconciler{
		Client: c, Recorder: recorder, Backends: backends, Clock: w.clock, Filter: watchFilter(w.filter),
	}
	w.pool, w.seen = pool.New(c, watchFilter(w.filter)), nil
	w.machines = &machine.Reconciler{
		Client: c, Reader: c, Hosts: w.pool, Recorder: recorder, Backends: backends, Clock: w.clock,
		Filter: watchFilter(w.filter), Proof: w.proof,
	}
	w.hosts = host.New(host.Options{
		Client: c, Reader: c, Recorder: recorder, Clock: w.clock, HeartbeatTimeout: options.HeartbeatTimeout,
		Filter:          watchFilter(w.filter),
		UnlinkedTimeout: options.UnlinkedTimeout,
		Supplier:        supplier{w}, SupplyNamespace: supply.In(ns), Agents: options.AgentServer,
	})
}

// call counts a call and performs it, with a fault if one is due.
func (w *world) call(name string, changes bool, do func() error) error {
	w.calls++
	what := w.inject(w.calls)
	if name == w.broken {
		what = refused
	}
	if changes {
		w.log, w.writes = append(w.log, name), append(w.writes, w.calls)
	}
	if what == refused || what == conflict || what == tooMany {
		return what.answer(name)
	}
	if err := do(); err != nil {
		return err
	}
	return what.answer(name)
}

func (w *world) funcs() interceptor.Funcs {
	kind := func(o runtime.Object) string { return strings.TrimPrefix(fmt.Sprintf("%T", o), "*") }
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			opts ...client.GetOption) error {
			return w.call("get "+kind(o), false, func() error { return c.Get(ctx, key, o, opts...) })
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			return w.call("list "+kind(l), false, func() error { return c.List(ctx, l, opts...) })
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return w.call("create "+kind(o), true, func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return w.call("update "+kind(o), true, func() error { return c.Update(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return w.call("delete "+kind(o), true, func() error { return c.Delete(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption) error {
			return w.call("patch "+kind(o), true, func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return w.call("apply", true, func() error { return c.Apply(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption) error {
			return w.call("patch "+sub+" "+kind(o), true, func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o client.Object, s client.Object,
			opts ...client.SubResourceCreateOption) error {
			return w.call("create "+sub, true, func() error {
				if err := c.Get(ctx, client.ObjectKeyFromObject(o), &corev1.ServiceAccount{}); err != nil {
					return err
				}
				request := s.(*authenticationv1.TokenRequest)
				secret := types.NamespacedName{Namespace: o.GetNamespace(), Name: request.Spec.BoundObjectRef.Name}
				if err := c.Get(ctx, secret, &corev1.Secret{}); err != nil {
					return err
				}
				request.Status.Token = "token"
				return nil
			})
		},
	}
}

// settle runs everything until nothing changes. It fails the test if that takes too long or an invariant breaks.
func (w *world) settle() {
	w.t.Helper()
	quiet := 0
	for range 300 {
		before := w.state()
		failed := w.pass()
		w.core()
		w.agents()
		w.invariants()
		w.clock.SetTime(w.clock.Now().Add(5 * time.Second))
		if failed || w.state() != before {
			quiet = 0
			continue
		}
		if quiet++; quiet == 2 { // the clock advanced in between
			return
		}
	}
	w.t.Fatalf("not settled after 300 rounds; the last calls: %v", w.log[max(0, len(w.log)-20):])
}

// pass reconciles every object once and reports whether one failed.
func (w *world) pass() (failed bool) {
	one := func(r reconcile.Reconciler, o client.Object) {
		result, err := r.Reconcile(w.t.Context(), requestOf(o))
		if err != nil && !errors.Is(err, errInjected) && !strings.Contains(err.Error(), "bootstrap data") {
			w.t.Errorf("%T %s: %v", o, o.GetName(), err)
		}
		failed = failed || errors.Is(err, errInjected) || result.RequeueAfter > 0 && result.RequeueAfter < time.Second
	}
	for i := range w.allClusters() {
		one(w.clusters, &w.allClusters()[i])
	}
	for _, m := range w.allMachines() {
		w.watch()
		one(w.machines, &m)
	}
	for _, h := range w.allHosts() {
		one(w.hosts, &h)
	}
	return failed
}

// watch updates what the watch of hosts has shown.
func (w *world) watch() {
	gone := w.seen
	w.seen = map[string]*infrav1.CapstanHost{}
	hosts := w.allHosts()
	for i := range hosts {
		w.pool.Observe(&hosts[i])
		w.seen[hosts[i].Name] = &hosts[i]
		delete(gone, hosts[i].Name)
	}
	for _, h := range gone {
		w.pool.Remove(h, true)
	}
}

// core plays Cluster API's controllers, which react to what the provider reports.
func (w *world) core() {
	for _, c := range w.allClusters() {
		if !ptr.Deref(c.Status.Initialization.Provisioned, false) || len(c.OwnerReferences) == 0 {
			continue
		}
		owner := &clusterv1.Cluster{}
		if w.api.Get(w.t.Context(), types.NamespacedName{Namespace: ns, Name: c.OwnerReferences[0].Name}, owner) != nil {
			continue
		}
		if !ptr.Deref(owner.Status.Initialization.InfrastructureProvisioned, false) && owner.Annotations["hold"] == "" {
			owner.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
			w.must(w.api.Status().Update(w.t.Context(), owner))
		}
	}
}

// invariants checks what must hold after every pass, whatever failed.
func (w *world) invariants() {
	w.t.Helper()
	claims := map[string]string{}
	for _, h := range w.allHosts() {
		if c := h.Spec.Claim; c != nil {
			if other := claims[c.MachineUID]; other != "" {
				w.t.Fatalf("machine %s has the hosts %s and %s", c.Machine, other, h.Name)
			}
			claims[c.MachineUID] = h.Name
		}
	}
	for _, m := range w.allMachines() {
		provisioned := ptr.Deref(m.Status.Initialization.Provisioned, false)
		if provisioned && (m.Spec.ProviderID == "" || len(m.Status.Addresses) == 0 && !w.moved ||
			m.Status.FailureDomain == "") {
			w.t.Fatalf("machine %s is provisioned without provider id, address or failure domain (IM-53): %+v", m.Name, m.Status)
		}
		if w.provided[m.UID] && !provisioned {
			w.t.Fatalf("machine %s was provisioned and is not any more (IM-20)", m.Name)
		}
		w.provided[m.UID] = w.provided[m.UID] || provisioned
	}
	for _, c := range w.allClusters() {
		if ptr.Deref(c.Status.Initialization.Provisioned, false) && c.Spec.LoadBalancer.Type == infrav1.LoadBalancerLocal &&
			!c.Spec.ControlPlaneEndpoint.IsValid() {
			w.t.Fatalf("cluster %s is provisioned without endpoint (IC-50)", c.Name)
		}
	}
}

// state returns a value that changes with every change of an object or outside the API server.
func (w *world) state() string {
	var b strings.Builder
	put := func(o client.Object) { fmt.Fprintf(&b, "%s/%s ", o.GetName(), o.GetResourceVersion()) }
	for _, o := range w.allClusters() {
		put(&o)
	}
	for _, o := range w.allMachines() {
		put(&o)
	}
	for _, o := range w.allHosts() {
		put(&o)
	}
	fmt.Fprint(&b, w.running, w.backends)
	return b.String()
}

func (w *world) allClusters() []infrav1.CapstanCluster {
	return list(w, &infrav1.CapstanClusterList{}).Items
}
func (w *world) allMachines() []infrav1.CapstanMachine {
	return list(w, &infrav1.CapstanMachineList{}).Items
}
func (w *world) allHosts() []infrav1.CapstanHost { return list(w, &infrav1.CapstanHostList{}).Items }

func list[L client.ObjectList](w *world, l L) L {
	w.t.Helper()
	w.must(w.api.List(w.t.Context(), l))
	return l
}

func (w *world) host(name string) *infrav1.CapstanHost { return get(w, name, &infrav1.CapstanHost{}) }
func (w *world) machine(name string) *infrav1.CapstanMachine {
	return get(w, name, &infrav1.CapstanMachine{})
}
func (w *world) capstanCluster(name string) *infrav1.CapstanCluster {
	return get(w, name, &infrav1.CapstanCluster{})
}

func get[O client.Object](w *world, name string, o O) O {
	w.t.Helper()
	w.must(w.api.Get(w.t.Context(), types.NamespacedName{Namespace: ns, Name: name}, o))
	return o
}

// exists reports whether the object exists.
func (w *world) exists(name string, o client.Object) bool {
	w.t.Helper()
	err := w.api.Get(w.t.Context(), types.NamespacedName{Namespace: ns, Name: name}, o)
	w.must(client.IgnoreNotFound(err))
	return err == nil
}

// edit changes an object, except its status.
func edit[O client.Object](w *world, o O, change func(O)) {
	w.t.Helper()
	change(o)
	w.must(w.api.Update(w.t.Context(), o))
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func requestOf(o client.Object) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)}
}

// changes returns the provider's calls that changed something since the last call of changes.
func (w *world) changes() []string {
	log := w.log
	w.log = nil
	return log
}
