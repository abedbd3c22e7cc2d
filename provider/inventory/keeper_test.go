package inventory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// world is an API server and a dock. It also plays the controller of hosts, which releases deleted hosts.
type world struct {
	t      *testing.T
	api    client.WithWatch
	budget int
	zones  []string
	clock  *clocktesting.FakePassiveClock
	// exist holds the hosts of the dock. destroyed holds the hosts that it was told to destroy.
	exist, destroyed []string

	// fail is the number of the call that fails, or 0. late says whether that call takes effect anyway.
	calls, fail int
	late        bool
	// before is called before each call. Optional.
	before func(call string)

	keeper *Keeper
}

func newWorld(t *testing.T, budget int, objects ...client.Object) *world {
	w := &world{t: t, api: server(t, objects...), budget: budget, zones: []string{"a", "b"},
		clock: clocktesting.NewFakePassiveClock(now)}
	return w
}

// start creates a Keeper, as a starting plane does.
func (w *world) start() error {
	c := interceptor.NewClient(w.api, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			return w.call(fmt.Sprintf("list %T", list), func() error { return c.List(ctx, list, o...) })
		},
		Get: func(
			ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption,
		) error {
			return w.call(fmt.Sprintf("get %T %s", o, k), func() error { return c.Get(ctx, k, o, opts...) })
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if h, ok := o.(*infrav1.CapstanHost); ok {
				h.Finalizers = []string{infrav1.HostFinalizer}
			}
			return w.call(fmt.Sprintf("create %T", o), func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return w.call(fmt.Sprintf("update %T", o), func() error { return c.Update(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return w.call(fmt.Sprintf("delete %T %s", o, o.GetName()), func() error { return c.Delete(ctx, o, opts...) })
		},
	})
	register, err := OpenRegister(w.t.Context(), c, c)
	if err != nil {
		return err
	}
	w.keeper, err = New(Options{
		Client: c, Reader: c, Register: register, Supplier: w, Budget: w.budget, Zones: w.zones, Clock: w.clock,
	})
	return err
}

// errFault is the error of a failing call.
var errFault = errors.New("no answer")

// call performs a call or makes it fail.
func (w *world) call(what string, do func() error) error {
	if w.before != nil {
		w.before(what)
	}
	w.calls++
	if w.calls != w.fail {
		return do()
	}
	if w.late {
		_ = do()
	}
	return errFault
}

// Versions, PowerOn, Destroy and List make the world a Supplier.
func (w *world) Versions() []string { return nil }

func (w *world) PowerOn(context.Context, string, []byte) (string, error) { return "", nil }

func (w *world) Destroy(_ context.Context, host string) error {
	return w.call("destroy "+host, func() error {
		w.destroyed = append(w.destroyed, host)
		w.exist = slices.DeleteFunc(w.exist, func(name string) bool { return name == host })
		return nil
	})
}

func (w *world) List(context.Context) (exist []string, err error) {
	err = w.call("list the dock", func() error { exist = slices.Clone(w.exist); return nil })
	return exist, err
}

// hosts returns the existing hosts as "namespace/name zone", with a ! for a claim.
func (w *world) hosts() []string {
	list := &infrav1.CapstanHostList{}
	if err := w.api.List(context.Background(), list); err != nil {
		w.t.Fatal(err)
	}
	var all []string
	for _, h := range list.Items {
		text := h.Namespace + "/" + h.Name + " " + h.Spec.Zone
		if h.Spec.Claim != nil {
			text += "!"
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return all
}

// let removes deleted hosts that are not claimed, and checks that no number is in two namespaces.
func (w *world) let() {
	w.t.Helper()
	list := &infrav1.CapstanHostList{}
	if err := w.api.List(context.Background(), list); err != nil {
		w.t.Fatal(err)
	}
	where := map[string]string{}
	for i := range list.Items {
		h := &list.Items[i]
		if other, twice := where[h.Name]; twice {
			w.t.Fatalf("%s is in %s and in %s", h.Name, other, h.Namespace)
		}
		where[h.Name] = h.Namespace
		if !h.DeletionTimestamp.IsZero() && h.Spec.Claim == nil {
			h.Finalizers = nil
			if err := w.api.Update(context.Background(), h); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// settle starts a Keeper and runs it until everything is settled. After a failure it starts a new Keeper, as if the
// process had been killed.
func (w *world) settle() {
	w.t.Helper()
	w.keeper = nil
	for range 60 {
		if w.keeper == nil {
			if w.start() != nil {
				continue
			}
		}
		settled, err := w.keeper.Keep(w.t.Context())
		w.let()
		if err != nil {
			w.keeper = nil
		} else if settled {
			return
		}
	}
	w.t.Fatalf("not settled: %v", w.hosts())
}

func host(name, supplier string, claimed bool) *infrav1.CapstanHost {
	h := &infrav1.CapstanHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Finalizers: []string{infrav1.HostFinalizer}},
		Spec:       infrav1.CapstanHostSpec{Zone: "elsewhere", Supplier: supplier},
	}
	if claimed {
		h.Spec.Claim = &infrav1.HostClaim{Machine: "m"}
	}
	return h
}

// TestKeep also checks that a Keeper keeps hosts registered by an earlier version, which knew only one namespace.
func TestKeep(t *testing.T) {
	for name, c := range map[string]struct {
		has  []client.Object
		n    int
		want []string // name, zone
	}{
		"an empty inventory, zones in turn": {n: 4, want: []string{"host-01 a", "host-02 b", "host-03 a", "host-04 b"}},
		"growing keeps the existing hosts": {has: []client.Object{host("host-01", "dock", true)}, n: 2,
			want: []string{"host-01 elsewhere!", "host-02 a"}},
		"a gap is filled": {has: []client.Object{host("host-02", "dock", false)}, n: 2,
			want: []string{"host-01 a", "host-02 elsewhere"}},
		"shrinking removes free hosts only": {
			has: []client.Object{host("host-01", "dock", false), host("host-02", "dock", true), host("host-03", "dock", false)},
			n:   1, want: []string{"host-01 elsewhere", "host-02 elsewhere!"},
		},
		"a budget of 0": {has: []client.Object{host("host-01", "dock", false)}, n: 0},
		"owned hosts and hosts with other names are left alone": {
			has: []client.Object{host("host-07", "", false), host("host-007", "dock", false), host("rack", "dock", false),
				host("host-", "dock", false)}, n: 0,
			want: []string{"host- elsewhere", "host-007 elsewhere", "host-07 elsewhere", "rack elsewhere"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.n, c.has...)
			for range 2 { // the second time changes nothing
				w.settle()
				got := w.hosts()
				for i := range got {
					got[i] = strings.TrimPrefix(got[i], "default/")
				}
				if !slices.Equal(got, c.want) {
					t.Fatalf("got %v, want %v", got, c.want)
				}
			}
		})
	}
}

func TestNewRefusesNonsense(t *testing.T) {
	for name, c := range map[string]struct {
		n     int
		zones []string
	}{
		"a negative number": {-1, []string{"a"}}, "too many": {Max + 1, []string{"a"}}, "no zone": {1, nil},
	} {
		if _, err := New(Options{Budget: c.n, Zones: c.zones}); err == nil {
			t.Errorf("New accepts %s", name)
		}
	}
}

// moves returns a world with four hosts in Home, which an earlier version registered. One of them is claimed. Another
// namespace asks for two hosts. The dock still has one of the free hosts, because it was never destroyed.
func moves(t *testing.T) *world {
	w := newWorld(t, 4, host("host-01", "dock", true), host("host-02", "dock", false), host("host-03", "dock", false),
		host("host-04", "dock", false), class(infrav1.GroupVersion.Group), ofClass("blue", "demo", 1),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "blue"}})
	w.exist = []string{"host-01", "host-04"}
	return w
}

// TestEveryCallFailsInTurn lets a namespace ask for hosts and then go away. Whichever call fails, before or after its
// effect, and even if the plane restarts after it, everything must settle, and no number may ever be in two namespaces.
func TestEveryCallFailsInTurn(t *testing.T) {
	for _, late := range []bool{false, true} {
		for fail := 1; ; fail++ {
			w := moves(t)
			w.fail, w.late = fail, late
			w.settle()
			got := w.hosts()
			inTurn := []string{"blue/host-03 a", "blue/host-04 b", "default/host-01 elsewhere!", "default/host-02 elsewhere"}
			otherwise := slices.Concat([]string{"blue/host-03 b", "blue/host-04 a"}, inTurn[2:])
			if !slices.Equal(got, inTurn) && !slices.Equal(got, otherwise) || !slices.Equal(w.exist, []string{"host-01"}) {
				t.Errorf("call %d fails, late %t: %v, and the dock has %v", fail, late, got, w.exist)
			}
			cluster := ofClass("blue", "demo", 1)
			if err := w.api.Delete(t.Context(), cluster); err != nil {
				t.Fatal(err)
			}
			w.settle()
			if got := w.hosts(); slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "blue/") }) ||
				len(got) != 4 {
				t.Errorf("call %d fails, late %t: %v after the cluster is gone", fail, late, got)
			}
			if slices.Contains(w.destroyed, "host-01") {
				t.Fatalf("call %d fails, late %t: a claimed host was destroyed", fail, late)
			}
			if w.calls < fail {
				break
			}
		}
	}
}

// TestAHostThatIsClaimedMeanwhileStays covers a host that the Keeper read as free, and that a machine claims before the
// Keeper acts.
func TestAHostThatIsClaimedMeanwhileStays(t *testing.T) {
	w := moves(t)
	w.before = func(call string) {
		if call != "delete *v1beta2.CapstanHost host-04" {
			return
		}
		w.before = nil
		h := &infrav1.CapstanHost{}
		if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: Home, Name: "host-04"}, h); err != nil {
			t.Fatal(err)
		}
		h.Spec.Claim = &infrav1.HostClaim{Machine: "m"}
		if err := w.api.Update(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	w.settle()
	want := []string{"blue/host-02 b", "blue/host-03 a", "default/host-01 elsewhere!", "default/host-04 elsewhere!"}
	if got := w.hosts(); w.before != nil || len(got) != 4 || !slices.Contains(got, want[2]) ||
		!slices.Contains(got, want[3]) || slices.Contains(w.destroyed, "host-04") {
		t.Errorf("got %v, want about %v; destroyed: %v", got, want, w.destroyed)
	}
}

// TestANumberWaitsUntilItsHostIsGone covers a host that should move while somebody blocks its deletion. It must not be
// registered elsewhere. After a while it counts towards its namespace's share, and once it is gone, everything settles.
func TestANumberWaitsUntilItsHostIsGone(t *testing.T) {
	held := host("host-04", "dock", false)
	held.Finalizers = []string{"tenant/hold"}
	held.Namespace = "blue"
	w := newWorld(t, 4, held, class(infrav1.GroupVersion.Group), ofClass("blue", "demo", 3))
	w.settle() // blue has all hosts
	if err := w.api.Delete(t.Context(), ofClass("blue", "demo", 3)); err != nil {
		t.Fatal(err)
	}
	step := func() {
		if err := w.start(); err != nil {
			t.Fatal(err)
		}
		if _, err := w.keeper.Keep(t.Context()); err != nil {
			t.Fatal(err)
		}
		list := &infrav1.CapstanHostList{}
		if err := w.api.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			if h := &list.Items[i]; h.Name != "host-04" && !h.DeletionTimestamp.IsZero() {
				h.Finalizers = nil
				if err := w.api.Update(t.Context(), h); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for range 5 {
		step()
	}
	if got := w.hosts(); len(got) != 4 || !slices.Contains(got, "blue/host-04 elsewhere") {
		t.Errorf("while the deletion of host-04 is blocked, the hosts are %v", got)
	}
	w.clock.SetTime(time.Now().Add(2 * stuckAfter)) // the API server in memory has its own clock
	for range 3 {
		step()
	}
	if got := w.hosts(); len(got) != 4 || !slices.Contains(got, "blue/host-04 elsewhere") {
		t.Errorf("after the deletion of host-04 has been blocked for long, the hosts are %v", got)
	}
	w.settle()
	w.settle() // the deletion of the host was an event
	inBlue := func(text string) bool { return strings.HasPrefix(text, "blue") }
	if got := w.hosts(); len(got) != 4 || slices.ContainsFunc(got, inBlue) {
		t.Errorf("after host-04 is gone, the hosts are %v", got)
	}
}

func TestRegister(t *testing.T) {
	young := metav1.Time{Time: now}
	in := func(namespace, name string, since metav1.Time) client.Object {
		h := host(name, "dock", false)
		h.Namespace, h.CreationTimestamp = namespace, since
		return h
	}
	old := metav1.Time{Time: now.Add(-time.Hour)}
	w := newWorld(t, 9, in(Home, "host-01", young), in("a", "host-01", old), in("a", "host-02", young),
		in("b", "host-02", old), in("a", "rack", old))
	if err := w.start(); err != nil {
		t.Fatal(err)
	}
	r := w.keeper.Register
	if got := r.Owners(); !maps.Equal(got, map[int]string{1: Home, 2: "b"}) {
		t.Errorf("without a register, the owners derived from the hosts are %v", got)
	}
	for host, want := range map[string]string{"host-01": Home, "host-02": "b", "host-03": "", "rack": Home} {
		if got := r.Namespace(host); got != want {
			t.Errorf("%s is in %q, want %q", host, got, want)
		}
	}
	if err := r.write(t.Context(), map[int]string{1: "a", 5: "b"}); err != nil {
		t.Fatal(err)
	}
	again, err := OpenRegister(t.Context(), w.api, w.api)
	if err != nil || !maps.Equal(again.Owners(), map[int]string{1: "a", 5: "b"}) {
		t.Errorf("read again, the owners are %v; error %v", again.Owners(), err)
	}
	// If somebody else has written the register, the Keeper reads it again and does not overwrite it.
	if err := again.write(t.Context(), map[int]string{1: "c"}); err != nil {
		t.Fatal(err)
	}
	if err := r.write(t.Context(), map[int]string{1: "d"}); err == nil || r.Namespace("host-01") != "c" {
		t.Errorf("after somebody else has written, host-01 is in %q; error %v", r.Namespace("host-01"), err)
	}
}
