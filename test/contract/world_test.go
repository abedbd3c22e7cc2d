//go:build linux

package contract

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider"
	"github.com/capstan-dev/capstan/provider/supply"
)

// skipNames allows several controllers of one name, because there are many managers in this process. None uses the
// priority queue, which can deadlock during shutdown.
var skipNames = config.Controller{SkipNameValidation: ptr.To(true), UsePriorityQueue: ptr.To(false)}

// world is one namespace of the API server with hosts and an instrumented infrastructure. The provider works there with
// the rights of its own service account. Objects are created and read in the API version that serves one contract.
type world struct {
	*testing.T
	form
	ns    string
	infra *infra

	// how the provider is started
	options   provider.Options
	namespace string // --namespace; default: the world's
	wrap      func(http.RoundTripper) http.RoundTripper

	stopProvider func()
}

// newWorld creates a world with n supplied hosts in three zones, and starts the provider.
func newWorld(t *testing.T, f form, n int, edits ...func(*world)) *world {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "world-" + string(f.Version) + "-"}}
	if err := shared.admin.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, form: f, ns: ns.Name, namespace: ns.Name}
	w.infra = newInfra(t, w.ns)
	w.options = provider.Options{
		Balancer: w.infra, Supplier: w.infra, SupplyNamespace: supply.In(w.ns),
		AgentServer: provider.AgentServer{URL: shared.Config.Host, CAData: shared.Config.CAData},
	}
	for _, edit := range edits {
		edit(w)
	}
	for i := 1; i <= n; i++ {
		w.create(&infrav1.CapstanHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: fmt.Sprintf("host-%02d", i)},
			Spec:       infrav1.CapstanHostSpec{Zone: "zone-" + string("abc"[(i-1)%3]), Supplier: infrav1.SupplierDock},
		})
	}
	w.start()
	t.Cleanup(func() { w.stop() })
	return w
}

// start starts the provider, as capstan-manager would.
func (w *world) start() {
	w.Helper()
	access := rest.CopyConfig(managerConfig)
	if w.wrap != nil {
		access.Wrap(w.wrap)
	}
	byObject, err := provider.CacheByObject()
	w.must(err)
	options := ctrl.Options{
		Scheme: shared.scheme, Metrics: server.Options{BindAddress: "0"}, Cache: cache.Options{ByObject: byObject},
		Controller: skipNames,
	}
	if w.namespace != "" {
		options.Cache.DefaultNamespaces = map[string]cache.Config{w.namespace: {}}
	}
	mgr, err := ctrl.NewManager(access, options)
	w.must(err)
	ctx, stop := context.WithCancel(context.Background())
	w.must(provider.Setup(ctx, mgr, w.options))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	w.stopProvider = func() {
		stop()
		select {
		case err := <-ended:
			if err != nil {
				w.Errorf("the provider ended with: %v", err)
			}
		case <-time.After(limit):
			w.Error("the provider doesn't stop")
		}
	}
}

// stop stops the provider.
func (w *world) stop() {
	if w.stopProvider != nil {
		w.stopProvider()
		w.stopProvider = nil
	}
}

func (w *world) restart() {
	w.Helper()
	w.stop()
	w.start()
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// until waits for a condition.
func (w *world) until(what string, ok func() bool) {
	w.Helper()
	deadline := time.Now().Add(limit)
	for tick := time.NewTicker(25 * time.Millisecond); ; <-tick.C {
		if ok() {
			tick.Stop()
			return
		}
		if w.Failed() {
			tick.Stop()
			w.FailNow()
		}
		if time.Now().After(deadline) {
			tick.Stop()
			w.dump()
			w.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// dump logs all of our objects in the world.
func (w *world) dump() {
	w.Helper()
	for _, kind := range []string{"CapstanCluster", "CapstanMachine"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(w.newObject(kind + "List").GroupVersionKind())
		_ = shared.admin.List(w.Context(), list, client.InNamespace(w.ns))
		for _, o := range list.Items {
			o.SetManagedFields(nil)
			data, _ := o.MarshalJSON()
			w.Logf("%s", data)
		}
	}
	hosts := &infrav1.CapstanHostList{}
	_ = shared.admin.List(w.Context(), hosts, client.InNamespace(w.ns))
	for _, h := range hosts.Items {
		w.Logf("host %s: %+v %+v", h.Name, h.Spec, h.Status)
	}
	w.Logf("calls of the infrastructure: %v", w.infra.made())
}

func (w *world) create(o client.Object) {
	w.Helper()
	w.must(shared.admin.Create(w.Context(), o))
}

// get returns one of our objects, or nil if there is none.
func (w *world) get(kind, name string) *unstructured.Unstructured {
	w.Helper()
	u := w.newObject(kind)
	err := shared.admin.Get(w.Context(), types.NamespacedName{Namespace: w.ns, Name: name}, u)
	w.must(client.IgnoreNotFound(err))
	if err != nil {
		return nil
	}
	return u
}

func (w *world) machine(name string) *unstructured.Unstructured {
	w.Helper()
	return w.get("CapstanMachine", name)
}

func (w *world) cluster(name string) *unstructured.Unstructured {
	w.Helper()
	return w.get("CapstanCluster", name)
}

// read reads an object, which must exist.
func read[O client.Object](w *world, name string, o O) O {
	w.Helper()
	w.must(shared.admin.Get(w.Context(), types.NamespacedName{Namespace: w.ns, Name: name}, o))
	return o
}

// edit changes an object, except its status, with a merge patch.
func edit[O client.Object](w *world, o O, change func(O)) {
	w.Helper()
	before, _ := o.DeepCopyObject().(client.Object)
	change(o)
	w.must(shared.admin.Patch(w.Context(), o, client.MergeFrom(before)))
}

// delete requests the deletion of an object.
func (w *world) delete(o client.Object) {
	w.Helper()
	w.must(shared.admin.Delete(w.Context(), o))
}

func (w *world) gone(kind, name string) {
	w.Helper()
	w.until(kind+" "+name+" is gone", func() bool { return w.get(kind, name) == nil })
}

// waitCondition waits until a condition of an object has the wanted status and reason, for example
// "False WaitingForOwner".
func (w *world) waitCondition(kind, name, condition, want string) *unstructured.Unstructured {
	w.Helper()
	var u *unstructured.Unstructured
	w.until(fmt.Sprintf("%s %s says %s %s", kind, name, condition, want), func() bool {
		u = w.get(kind, name)
		return u != nil && w.is(u, condition, want)
	})
	return u
}

// ready waits until a machine is Ready, and fails the test if the machine does not say that it is provisioned.
func (w *world) ready(name string) *unstructured.Unstructured {
	w.Helper()
	u := w.waitCondition("CapstanMachine", name, infrav1.ReadyCondition, "True")
	if !w.flag(u) {
		w.Errorf("machine %s is Ready, but does not say that it is provisioned", name)
	}
	return u
}

// touch changes a meaningless annotation n times.
func (w *world) touch(kind, name string, n int) {
	w.Helper()
	for i := range n {
		edit(w, w.get(kind, name), func(u *unstructured.Unstructured) {
			annotations := u.GetAnnotations()
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations["example.com/touched"] = fmt.Sprintf("%d at %d", i, time.Now().UnixNano())
			u.SetAnnotations(annotations)
		})
	}
}

// claims returns the host of each machine.
func (w *world) claims() map[string]string {
	w.Helper()
	hosts := &infrav1.CapstanHostList{}
	w.must(shared.admin.List(w.Context(), hosts, client.InNamespace(w.ns)))
	claims := map[string]string{}
	for _, h := range hosts.Items {
		if c := h.Spec.Claim; c != nil {
			if other := claims[c.Machine]; other != "" {
				w.Errorf("machine %s has the hosts %s and %s", c.Machine, other, h.Name)
			}
			claims[c.Machine] = h.Name
		}
	}
	return claims
}

// untouched fails the test if a machine has a host.
func (w *world) untouched(names ...string) {
	w.Helper()
	claims := w.claims()
	for _, name := range names {
		if claims[name] != "" {
			w.Errorf("machine %s has host %s", name, claims[name])
		}
	}
}

// hasFinalizer reports whether the object has our finalizer.
func hasFinalizer(u *unstructured.Unstructured) bool {
	return slices.ContainsFunc(u.GetFinalizers(),
		func(f string) bool { return strings.HasPrefix(f, infrav1.GroupVersion.Group+"/") })
}

// film records every revision of an object.
type film struct {
	mu        sync.Mutex
	revisions []*unstructured.Unstructured
	deleted   bool
	stop      func()
}

// watch records the revisions of one of our objects from now on, until the test ends.
func (w *world) watch(kind, name string) *film {
	w.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(w.newObject(kind + "List").GroupVersionKind())
	watch, err := shared.admin.Watch(w.Context(), list, client.InNamespace(w.ns),
		&client.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name)})
	w.must(err)
	f := &film{stop: sync.OnceFunc(watch.Stop)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for e := range watch.ResultChan() {
			u, ok := e.Object.(*unstructured.Unstructured)
			f.mu.Lock()
			switch {
			case !ok:
			case e.Type == "DELETED":
				f.deleted = true
			default:
				f.revisions = append(f.revisions, u)
			}
			f.mu.Unlock()
		}
	}()
	w.Cleanup(func() {
		f.stop()
		<-ended
	})
	return f
}

// each runs the function check on every revision so far. It fails the test if there are fewer than minimum revisions.
func (f *film) each(w *world, minimum int, check func(*unstructured.Unstructured)) {
	w.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.revisions) < minimum {
		w.Errorf("there were only %d revisions, fewer than the test needs", len(f.revisions))
	}
	for _, u := range f.revisions {
		check(u)
	}
}

// checkReady checks the condition Ready in a film that ends with the object's deletion. There must be revisions with
// the condition from provisioning, from normal operation, and from the deletion. Once a revision has the condition, all
// later ones must have it. Once the condition reports the deletion, it must not become True again.
func (f *film) checkReady(w *world) {
	w.Helper()
	starting, running, leaving := 0, 0, 0
	f.each(w, 4, func(u *unstructured.Unstructured) {
		ready := w.condition(u, infrav1.ReadyCondition)
		deleting := !u.GetDeletionTimestamp().IsZero()
		switch {
		case ready == "" && (deleting || starting+running > 0):
			w.Errorf("a revision of %s %s has lost condition Ready", u.GetKind(), u.GetName())
		case ready == "": // the object has not been reconciled yet
		case strings.HasPrefix(ready, "True") && leaving > 0:
			w.Errorf("%s %s is Ready again while it is being deleted", u.GetKind(), u.GetName())
		case strings.HasPrefix(ready, "True"):
			running++ // including a deletion that has not been reconciled yet
		case deleting:
			leaving++
		default:
			starting++
		}
	})
	if starting == 0 || running == 0 || leaving == 0 {
		w.Errorf("Ready is in %d revisions of provisioning, %d of operation, %d of deletion: want some of each",
			starting, running, leaving)
	}
}
