package provider

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// TestAHostOfAnotherNamespaceIsNotSupplied covers a tenant who creates a CapstanHost with the name of a host in use in
// another namespace. Neither the existence nor the deletion of the tenant's CapstanHost may affect that host.
func TestAHostOfAnotherNamespaceIsNotSupplied(t *testing.T) {
	w := oneWorker(t)
	w.settle()
	name := w.machine("w1").Status.Host
	if !w.running[name] {
		t.Fatalf("host %q does not run", name)
	}
	for what, claim := range map[string]*infrav1.HostClaim{
		"free":    nil,
		"claimed": {Machine: "x", MachineUID: "x", Cluster: "x", ProviderID: "capstan://other/" + name + "/x", Hostname: "x"},
		"released": {Machine: "x", MachineUID: "x", Cluster: "x", ProviderID: "capstan://other/" + name + "/x", Hostname: "x",
			Released: true},
	} {
		strange := &infrav1.CapstanHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: name},
			Spec:       infrav1.CapstanHostSpec{Zone: "a", Supplier: infrav1.SupplierDock, Claim: claim},
		}
		w.must(w.api.Create(t.Context(), strange))
		w.changes()
		w.passOver(strange)
		w.must(w.api.Get(t.Context(), client.ObjectKeyFromObject(strange), strange))
		if c := conditions.Get(strange, infrav1.ReadyCondition); c == nil || c.Reason != infrav1.SupplierMissingReason {
			t.Errorf("%s: condition Ready of the other host is %v", what, c)
		}
		strange.Spec.Claim = nil
		w.must(w.api.Update(t.Context(), strange))
		w.must(w.api.Delete(t.Context(), strange))
		w.passOver(strange)
		if w.api.Get(t.Context(), client.ObjectKeyFromObject(strange), strange) == nil {
			t.Errorf("%s: the other host can't be deleted", what)
		}
		for _, call := range w.changes() {
			if call == "power on "+name || call == "destroy "+name {
				t.Errorf("%s: the other host led to %s", what, call)
			}
		}
		if !w.running[name] {
			t.Fatalf("%s: host %s was destroyed", what, name)
		}
	}
}

// passOver reconciles one host a few times.
func (w *world) passOver(host *infrav1.CapstanHost) {
	w.t.Helper()
	for range 4 {
		if _, err := w.hosts.Reconcile(w.t.Context(), requestOf(host)); err != nil {
			w.t.Fatal(err)
		}
	}
}

// TestAnOldCopyOfAHostDestroysNothing covers a pass over an outdated copy from the cache: the host is gone, and its
// number belongs to a host in another namespace.
func TestAnOldCopyOfAHostDestroysNothing(t *testing.T) {
	w := newWorld(t, hosts(1, infrav1.SupplierDock)...)
	w.settle()
	w.must(w.api.Delete(t.Context(), w.host("host-01")))
	old := &oldCopy{Client: w.hosts.Client, host: w.host("host-01")}
	pass := func() { // writes based on an old copy fail: the object is gone
		_, _ = w.hosts.Reconcile(t.Context(), requestOf(old.host))
	}
	pass()
	if w.exists("host-01", &infrav1.CapstanHost{}) {
		t.Fatal("the host is not deleted")
	}
	w.running["host-01"] = true
	w.hosts.Client = old
	pass()
	if !w.running["host-01"] {
		t.Error("the host of the other namespace was destroyed")
	}
}

// oldCopy is a cache that lags behind.
type oldCopy struct {
	client.Client
	host *infrav1.CapstanHost
}

// Get returns the old copy of a host.
func (c *oldCopy) Get(ctx context.Context, key client.ObjectKey, into client.Object, o ...client.GetOption) error {
	if h, ok := into.(*infrav1.CapstanHost); ok {
		c.host.DeepCopyInto(h)
		return nil
	}
	return c.Client.Get(ctx, key, into, o...)
}
