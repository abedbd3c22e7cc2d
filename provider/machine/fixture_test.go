package machine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/backend"
	"github.com/capstan-dev/capstan/provider/bootstrapdata"
	"github.com/capstan-dev/capstan/provider/claim"
	"github.com/capstan-dev/capstan/provider/pool"
	"github.com/capstan-dev/capstan/provider/step"
)

const ns = "default"

var errInjected = errors.New("injected")

// fixture is a reconciler with an API server in memory. Each of the reconciler's calls can be made to fail.
type fixture struct {
	*Reconciler
	t     *testing.T
	api   client.WithWatch // without faults
	clock *clocktesting.FakePassiveClock
	calls []string // names of the reconciler's calls

	// fault decides what happens to a call, by its number, counted from 1, and its name. If nil, all calls work.
	fault func(n int, name string) fault
	// stale changes how the watch shows a host. If nil, the watch shows it unchanged.
	stale func(*infrav1.CapstanHost)
	seen  map[string]*infrav1.CapstanHost // what the watch has shown
	lags  bool                            // the watch shows nothing new
}

// fault is what happens to a call: its error, and whether it takes effect anyway.
type fault struct {
	err    error
	effect bool
}

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{infrav1.AddToScheme, clusterv1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	f := &fixture{t: t, clock: clocktesting.NewFakePassiveClock(time.Now()), seen: map[string]*infrav1.CapstanHost{}}
	f.api = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&infrav1.CapstanMachine{}, &infrav1.CapstanHost{}, &clusterv1.Cluster{}).Build()
	cached := interceptor.NewClient(f.api, f.funcs())
	f.Reconciler = &Reconciler{
		Client: cached, Reader: cached, Hosts: pool.New(cached, ""),
		Recorder: events.NewFakeRecorder(1000), Clock: f.clock,
		Backends: &backend.Keeper{Reader: cached, Balancer: balancer{f}},
	}
	return f
}

// call records a call and performs it, unless it fails.
func (f *fixture) call(name string, do func() error) error {
	f.calls = append(f.calls, name)
	var fault fault
	if f.fault != nil {
		fault = f.fault(len(f.calls), name)
	}
	if fault.err == nil {
		return do()
	}
	if fault.effect {
		_ = do() // the answer is lost
	}
	return fault.err
}

func (f *fixture) funcs() interceptor.Funcs {
	kind := func(o runtime.Object) string {
		name := fmt.Sprintf("%T", o)
		return name[strings.LastIndex(name, ".")+1:]
	}
	return interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption,
		) error {
			return f.call("get "+kind(o), func() error { return c.Get(ctx, key, o, opts...) })
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			return f.call("list "+kind(l), func() error { return c.List(ctx, l, opts...) })
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return f.call("create "+kind(o), func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return f.call("update "+kind(o), func() error { return c.Update(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return f.call("delete "+kind(o), func() error { return c.Delete(ctx, o, opts...) })
		},
		Patch: func(
			ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption,
		) error {
			return f.call("patch "+kind(o), func() error { return c.Patch(ctx, o, p, opts...) })
		},
		SubResourcePatch: func(
			ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption,
		) error {
			return f.call("patch "+sub+" "+kind(o), func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	}
}

// balancer records its calls.
type balancer struct{ f *fixture }

func (b balancer) Ensure(context.Context, types.NamespacedName) (string, int32, error) {
	return "10.231.16.1", 6443, nil
}

func (b balancer) SetBackends(_ context.Context, _ types.NamespacedName, addresses []string) error {
	return b.f.call(fmt.Sprintf("set backends %v", addresses), func() error { return nil })
}

func (b balancer) Delete(context.Context, types.NamespacedName) error { return nil }

// get reads an object, or returns nil if there is none.
func get[O client.Object](f *fixture, name string, o O) (found O) {
	f.t.Helper()
	switch err := f.api.Get(f.t.Context(), types.NamespacedName{Namespace: ns, Name: name}, o); {
	case apierrors.IsNotFound(err):
		return found
	case err != nil:
		f.t.Fatal(err)
	}
	return o
}

func (f *fixture) machine(name string) *infrav1.CapstanMachine {
	return get(f, name, &infrav1.CapstanMachine{})
}

func (f *fixture) host(name string) *infrav1.CapstanHost { return get(f, name, &infrav1.CapstanHost{}) }

// watch updates what the watch has shown.
func (f *fixture) watch() {
	f.t.Helper()
	if f.lags {
		return
	}
	list := &infrav1.CapstanHostList{}
	if err := f.api.List(f.t.Context(), list, client.InNamespace(ns)); err != nil {
		f.t.Fatal(err)
	}
	gone := f.seen
	f.seen = map[string]*infrav1.CapstanHost{}
	for i := range list.Items {
		host := &list.Items[i]
		if f.stale != nil {
			f.stale(host)
		}
		f.Hosts.Observe(host)
		f.seen[host.Name] = host
		delete(gone, host.Name)
	}
	for _, host := range gone {
		f.Hosts.Remove(host, true)
	}
}

// scope returns what the earlier steps find out about machine w1 now.
func (f *fixture) scope() *scope {
	f.t.Helper()
	s := &scope{
		capstan: f.machine("w1"), machine: get(f, "w1", &clusterv1.Machine{}),
		owningCluster: get(f, "demo", &clusterv1.Cluster{}), running: true,
	}
	if s.capstan == nil {
		return nil
	}
	s.owned = hasMachineOwner(s.capstan)
	f.watch()
	s.hold(f.Hosts.Held(s.capstan))
	return s
}

// run is a step.
type run = func(*Reconciler, context.Context, *scope) (step.Answer, error)

// trial is a step and the world in which it runs.
type trial struct {
	// objects returns a new world.
	objects func() []client.Object
	// prepare, if set, changes the fixture before the step.
	prepare func(*fixture)
	// with, if set, changes the scope before the step.
	with func(*fixture, *scope)
	run  run
	// check checks the world and the scope after the step.
	check func(t *testing.T, f *fixture, s *scope, answer step.Answer)
	// calls are the step's calls when nothing fails.
	calls []string
}

// do runs the step once and checks its calls. Then it makes each call fail in turn: without effect, with its answer
// lost, and with a conflict. Another attempt must always lead to the same result.
func (c trial) do(t *testing.T) {
	t.Helper()
	f := c.begin(t)
	s, answer, err := c.once(f)
	if err != nil {
		t.Fatalf("without a fault: %v", err)
	}
	c.check(t, f, s, answer)
	if !slices.Equal(f.calls, c.calls) {
		t.Errorf("calls %q, want %q", f.calls, c.calls)
	}
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "x"}, "x", errInjected)
	for n, name := range f.calls {
		for how, fault := range map[string]fault{
			"fails": {err: errInjected}, "loses its answer": {err: errInjected, effect: true}, "conflicts": {err: conflict},
		} {
			t.Run(fmt.Sprintf("call %d, %s, %s", n+1, name, how), func(t *testing.T) {
				f := c.begin(t)
				f.fault = onCall(n+1, fault)
				if _, _, err := c.once(f); err == nil && how != "conflicts" {
					t.Fatal("the step does not return the failure")
				}
				f.fault = nil
				s, answer, err := c.once(f)
				if err != nil {
					t.Fatalf("the next try: %v", err)
				}
				if s != nil {
					c.check(t, f, s, answer)
				}
			})
		}
	}
}

func (c trial) begin(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t, c.objects()...)
	if c.prepare != nil {
		c.prepare(f)
	}
	return f
}

// once runs the step in the present world. It returns a nil scope if the machine is gone.
func (c trial) once(f *fixture) (*scope, step.Answer, error) {
	s := f.scope()
	if s == nil {
		return nil, step.Stop(), nil
	}
	if c.with != nil {
		c.with(f, s)
	}
	answer, err := c.run(f.Reconciler, f.t.Context(), s)
	return s, answer, err
}

// onCall makes one call fail.
func onCall(number int, what fault) func(int, string) fault {
	return func(n int, _ string) fault {
		if n == number {
			return what
		}
		return fault{}
	}
}

// named makes the calls of a name fail without effect.
func named(name string, err error) func(int, string) fault {
	return func(_ int, called string) fault {
		if called == name {
			return fault{err: err}
		}
		return fault{}
	}
}

// change edits a world before a test starts.
type change = func(map[string]client.Object)

// world returns what Cluster API creates for machine w1 of cluster demo, and two free hosts, after these edits.
func world(edits ...change) []client.Object {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID("uid-of-" + name)}
	}
	cluster := &clusterv1.Cluster{ObjectMeta: meta("demo"), Spec: clusterv1.ClusterSpec{
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: infrav1.GroupVersion.Group, Kind: "CapstanCluster", Name: "demo-infra",
		},
	}}
	cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	owner := &clusterv1.Machine{ObjectMeta: meta("w1"), Spec: clusterv1.MachineSpec{
		ClusterName: "demo", Version: "v1.36.3", Bootstrap: clusterv1.Bootstrap{DataSecretName: ptr.To("w1-data")},
	}}
	capstan := &infrav1.CapstanMachine{ObjectMeta: meta("w1")}
	capstan.Labels = map[string]string{clusterv1.ClusterNameLabel: "demo"}
	capstan.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "w1", UID: owner.UID, Controller: ptr.To(true),
	}}
	all := map[string]client.Object{
		"cluster": cluster, "owner": owner, "machine": capstan,
		"infra": &infrav1.CapstanCluster{ObjectMeta: meta("demo-infra"), Spec: infrav1.CapstanClusterSpec{
			LoadBalancer: infrav1.LoadBalancer{Type: infrav1.LoadBalancerLocal},
		}},
		"data": &corev1.Secret{ObjectMeta: meta("w1-data"), Data: map[string][]byte{"value": []byte("data")}},
	}
	all["data"].SetLabels(map[string]string{infrav1.BootstrapDataLabel: ""})
	for _, name := range []string{"host-01", "host-02"} {
		host := &infrav1.CapstanHost{ObjectMeta: meta(name), Spec: infrav1.CapstanHostSpec{Zone: "zone-a"}}
		host.Status.Conditions = []metav1.Condition{{
			Type: infrav1.ReadyCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReadyReason,
			LastTransitionTime: metav1.Now(),
		}}
		all[name] = host
	}
	for _, edit := range edits {
		edit(all)
	}
	var out []client.Object
	for _, o := range all {
		if o != nil {
			out = append(out, o)
		}
	}
	return out
}

// worldOf returns a function that creates worlds.
func worldOf(edits ...change) func() []client.Object {
	return func() []client.Object { return world(edits...) }
}

// on returns an edit of one object of the world.
func on[O client.Object](name string, edit func(O)) change {
	return func(all map[string]client.Object) { edit(all[name].(O)) }
}

func machineIs(edit func(*infrav1.CapstanMachine)) change {
	return on("machine", edit)
}

// claimed gives w1 the claim of a host.
func claimed(host string, edits ...func(*infrav1.CapstanHost)) change {
	return func(all map[string]client.Object) {
		h := all[host].(*infrav1.CapstanHost)
		h.Spec.Claim = claim.New(h, all["machine"].(*infrav1.CapstanMachine), all["owner"].(*clusterv1.Machine))
		for _, edit := range edits {
			edit(h)
		}
	}
}

// reported sets the agent's report of a bootstrap phase.
func reported(phase infrav1.BootstrapPhase) func(*infrav1.CapstanHost) {
	return func(h *infrav1.CapstanHost) {
		h.Status.Agent = &infrav1.AgentReport{Address: "10.231.1.1", Bootstrap: &infrav1.BootstrapReport{
			ProviderID: h.Spec.Claim.ProviderID, Phase: phase, Step: "runcmd 1/2", Message: "exit code 1",
		}}
	}
}

// deliveredTo puts the bootstrap data of w1 into a host's Secret.
func deliveredTo(host string) change {
	return func(all map[string]client.Object) {
		h := all[host].(*infrav1.CapstanHost)
		all["delivered"] = &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: ns, Name: host + infrav1.BootstrapSecretSuffix, UID: "delivered",
				Annotations: map[string]string{bootstrapdata.ProviderIDAnnotation: h.Spec.Claim.ProviderID},
				OwnerReferences: []metav1.OwnerReference{{
					APIVersion: infrav1.GroupVersion.String(), Kind: "CapstanHost", Name: h.Name, UID: h.UID,
				}},
			},
			Data: map[string][]byte{"value": []byte("data")},
		}
	}
}

// deleted puts the machine into deletion, blocked by our finalizer.
func deleted(all map[string]client.Object) {
	m := all["machine"].(*infrav1.CapstanMachine)
	m.Finalizers, m.DeletionTimestamp = []string{infrav1.MachineFinalizer}, ptr.To(metav1.Now())
}

// decides runs a step that makes no calls, and checks its obstacle, whose message must begin with the wanted one. If
// the wanted obstacle is nil, the step must continue.
func decides(t *testing.T, run run, s *scope, want *step.Obstacle) {
	t.Helper()
	answer, err := run(&Reconciler{}, t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	got := s.obstacle
	if (got == nil) != (want == nil) || answer.Stopped() != (want != nil) {
		t.Fatalf("obstacle %+v, stopped %t; want %+v", got, answer.Stopped(), want)
	}
	if want == nil {
		return
	}
	if got.Reason != want.Reason || got.Brief != want.Brief || !strings.HasPrefix(got.Message, want.Message) {
		t.Errorf("obstacle %+v, want %+v", got, want)
	}
}
