//go:build linux

package contract

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// TestMachineLife follows a worker and a control plane machine from creation to deletion, revision by revision.
func TestMachineLife(t *testing.T) {
	eachVersion(t, func(t *testing.T, f form) {
		writes := &objectWrites{}
		w := newWorld(t, f, 4, func(w *world) { w.wrap = writes.wrap })
		w.provisionedCluster("demo")
		for _, name := range []string{"host-01", "host-02", "host-03", "host-04"} {
			edit(w, w.host(name), func(h *infrav1.CapstanHost) {
				h.Spec.Addresses = []infrav1.HostAddress{
					{Type: infrav1.HostExternalIP, Address: "198.51.100.7"},
					{Type: infrav1.HostExternalIP, Address: "2001:db8::7"},
					{Type: infrav1.HostExternalDNS, Address: name + ".example.com"},
					{Type: infrav1.HostInternalDNS, Address: name + ".internal"},
				}
			})
		}
		films := map[string]*film{"w1": w.watch("CapstanMachine", "w1"), "cp": w.watch("CapstanMachine", "cp")}
		w.newMachine("w1", machineOptions{
			labels: map[string]string{"example.com/mine": "yes"}, annotations: map[string]string{"example.com/note": "x"},
		})
		w.newMachine("cp", machineOptions{controlPlane: true})
		w.ready("w1")
		w.ready("cp")
		checkLife(w, "w1", films["w1"])
		checkLife(w, "cp", films["cp"])

		u, claims := w.machine("w1"), w.claims()
		if u.GetLabels()["example.com/mine"] != "yes" || u.GetAnnotations()["example.com/note"] != "x" ||
			len(u.GetOwnerReferences()) != 1 {
			t.Errorf("labels or annotations that others set are gone (IM-56): %v", u.Object["metadata"])
		}
		w.Attr("rule", "IM-06 "+string(w.Version))
		created := []string{"create " + claims["w1"], "create " + claims["cp"]}
		slices.Sort(created)
		if made := w.infra.made("create"); len(made) != 2 || !slices.Equal(slices.Sorted(slices.Values(made)), created) {
			t.Errorf("instances were made: %v, want one for each machine", made)
		}
		w.Attr("rule", "IM-49 "+string(w.Version))
		w.Attr("rule", "T-IM-05 "+string(w.Version))
		if early := w.infra.unguardedObjects(); len(early) != 0 {
			t.Errorf("instances were made for objects without finalizer: %v (IM-44)", early)
		}
		w.Attr("rule", "IM-44 "+string(w.Version))
		w.until("the control plane machine is registered", func() bool { return len(w.infra.made("register")) > 0 })
		register := "register " + addressOf(claims["cp"]) + ":6443"
		if made := w.infra.made("register", "deregister"); !slices.Equal(made, []string{register}) {
			t.Errorf("the balancer got the calls %v, want %s once, and no call for the worker (IM-51)", made, register)
		}
		w.Attr("rule", "IM-51 "+string(w.Version))

		// Touching and restarting (T-IM-06).
		id := w.providerID(u)
		w.touch("CapstanMachine", "w1", 5)
		w.restart()
		w.restart()
		w.newMachine("w2", machineOptions{})
		w.ready("w2")
		if made := w.infra.made("create"); len(made) != 3 {
			t.Errorf("after touching and restarting, instances were made: %v", made)
		}
		if u := w.machine("w1"); w.providerID(u) != id || !w.flag(u) {
			t.Errorf("after touching and restarting: provider id %s, was %s; provisioned %t", w.providerID(u), id, w.flag(u))
		}
		w.Attr("rule", "IM-63 "+string(w.Version))
		w.Attr("rule", "T-IM-06 "+string(w.Version))

		// Deletion (T-IM-10, T-IM-15).
		checkDeletion(w, claims)
		w.Attr("rule", "IM-01 "+string(w.Version))
		films["w1"].checkReady(w)
		w.Attr("rule", "IM-30 "+string(w.Version))
		writes.checkOwn(w, "capstanmachines/w1", "providerID")
		w.Attr("rule", "IM-56 "+string(w.Version))
		w.Attr("rule", "IM-61 "+string(w.Version))
		w.Attr("rule", "T-IM-10 "+string(w.Version))
	})
}

// checkLife checks a ready machine and all of its revisions.
func checkLife(w *world, name string, f *film) {
	w.Helper()
	u := w.machine(name)
	host := w.host(w.claims()[name])
	if !strings.HasPrefix(w.providerID(u), "capstan://"+w.ns+"/"+host.Name+"/") {
		w.Errorf("machine %s has provider id %q, which does not name its host (IM-52)", name, w.providerID(u))
	}
	w.Attr("rule", "IM-10 "+string(w.Version))
	w.Attr("rule", "IM-52 "+string(w.Version))
	want := []string{
		"Hostname " + name, "InternalIP " + addressOf(host.Name), "ExternalIP 198.51.100.7", "ExternalIP 2001:db8::7",
		"ExternalDNS " + host.Name + ".example.com", "InternalDNS " + host.Name + ".internal",
	}
	if got := w.addresses(u); !slices.Equal(got, want) {
		w.Errorf("machine %s has the addresses %v, want %v (IM-28)", name, got, want)
	}
	w.Attr("rule", "IM-27 "+string(w.Version))
	w.Attr("rule", "IM-28 "+string(w.Version))
	w.Attr("rule", "IM-54 "+string(w.Version))
	if w.domain(u) != host.Spec.Zone {
		w.Errorf("machine %s says that it is in %q, but its host is in %q (IM-55)", name, w.domain(u), host.Spec.Zone)
	}
	w.Attr("rule", "IM-55 "+string(w.Version))
	for _, kind := range []string{infrav1.ReadyCondition, infrav1.HostClaimedCondition, infrav1.BootstrappedCondition,
		infrav1.HostOnlineCondition} {
		if !w.is(u, kind, "True") {
			w.Errorf("machine %s: condition %s is %q, want True (IM-29, IM-31)", name, kind, w.condition(u, kind))
		}
	}
	w.Attr("rule", "IM-29 "+string(w.Version))
	w.Attr("rule", "IM-31 "+string(w.Version))
	if host.Spec.Claim.Hostname != name || host.Spec.Claim.Machine != name {
		w.Errorf("host %s has the claim %+v, which does not have the names of the machine (SG-07)",
			host.Name, host.Spec.Claim)
	}
	w.Attr("rule", "SG-07")
	data := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: host.Name + infrav1.BootstrapSecretSuffix}}
	if shared.admin.Get(w.Context(), keyOf(data), data) == nil {
		w.Errorf("the bootstrap data of machine %s for host %s was not deleted (SG-06)", name, host.Name)
	}
	w.Attr("rule", "SG-06")
	finalizer, provisioned := false, false
	f.each(w, 4, func(u *unstructured.Unstructured) {
		has := hasFinalizer(u)
		if finalizer && !has && u.GetDeletionTimestamp().IsZero() {
			w.Errorf("machine %s lost its finalizer", name)
		}
		finalizer = finalizer || has
		if (w.providerID(u) != "" || w.flag(u)) && !has {
			w.Errorf("machine %s has an instance, but no finalizer (IM-44)", name)
		}
		if w.flag(u) && (w.providerID(u) == "" || len(w.addresses(u)) == 0 || w.domain(u) == "") {
			w.Errorf("a revision of machine %s is provisioned without provider id, addresses or domain (IM-53): %v",
				name, u.Object)
		}
		if provisioned && !w.flag(u) {
			w.Errorf("machine %s was provisioned, and later not (IM-20)", name)
		}
		provisioned = provisioned || w.flag(u)
	})
	if !provisioned {
		w.Errorf("no revision of machine %s is provisioned", name)
	}
	w.Attr("rule", "IM-19 "+string(w.Version))
	w.Attr("rule", "IM-20 "+string(w.Version))
	w.Attr("rule", "IM-53 "+string(w.Version))
}

// checkDeletion deletes the worker w1 and the control plane machine cp.
func checkDeletion(w *world, claims map[string]string) {
	w.Helper()
	for _, name := range []string{"w1", "cp"} {
		w.delete(w.machine(name))
		// The provider removes the instance before the object. While the object exists, the instance may or may not exist.
		// Once the object is gone, the instance must be gone, too.
		w.until("machine "+name+" is gone", func() bool {
			if w.machine(name) != nil {
				return false
			}
			if len(w.infra.made("delete "+claims[name])) != 1 {
				w.Errorf("machine %s is gone before its instance (IM-57): %v", name, w.infra.made())
			}
			return true
		})
	}
	w.Attr("rule", "IM-57 "+string(w.Version))
	w.Attr("rule", "IM-60 "+string(w.Version))
	calls := w.infra.made()
	left := slices.Index(calls, "deregister "+addressOf(claims["cp"])+":6443")
	deleted := slices.Index(calls, "delete "+claims["cp"])
	if left < 0 || deleted < left {
		w.Errorf("the control plane machine must leave the balancer before its instance is deleted (IM-58): %v", calls)
	}
	if n := len(w.infra.made("deregister")); n != 1 {
		w.Errorf("%d deregistrations, want 1", n)
	}
	w.Attr("rule", "IM-58 "+string(w.Version))
	w.Attr("rule", "T-IM-15 "+string(w.Version))
}

// TestMachineIsPlacedInItsDomain requests a zone, then one that the inventory doesn't have.
func TestMachineIsPlacedInItsDomain(t *testing.T) {
	eachVersion(t, func(t *testing.T, f form) {
		w := newWorld(t, f, 6)
		w.provisionedCluster("demo")
		w.newMachine("w1", machineOptions{zone: "zone-b"})
		if u := w.ready("w1"); w.domain(u) != "zone-b" {
			t.Errorf("the machine says that it is in %q, want zone-b", w.domain(u))
		}
		w.Attr("rule", "IM-55 "+string(w.Version))
		if f.Version == v1beta1 {
			w.Attr("rule", "IM-14 v1beta1")
		} else {
			w.Attr("rule", "IM-18 v1beta2")
		}
		if made := w.infra.made("create"); len(made) != 1 ||
			w.host(strings.TrimPrefix(made[0], "create ")).Spec.Zone != "zone-b" {
			t.Errorf("instances were made: %v, want one in zone-b", made)
		}
		w.newMachine("w2", machineOptions{zone: "zone-x"}) // only now, because the message below counts the host of w1
		w.Attr("rule", "T-IM-17 "+string(w.Version))
		u := w.waitCondition("CapstanMachine", "w2", infrav1.ReadyCondition, "False "+infrav1.NoHostMatchesReason)
		if _, _, message := w.conditionAndMessage(u, infrav1.ReadyCondition); !strings.Contains(message,
			"0 of 6 hosts fit: 1 claimed, 5 in another zone") {
			t.Errorf("the machine doesn't say why it has no host: %s", message)
		}
		w.untouched("w2")
		w.Attr("rule", "IM-17 "+string(w.Version))
		w.create(&infrav1.CapstanHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "host-99"},
			Spec:       infrav1.CapstanHostSpec{Zone: "zone-x", Supplier: infrav1.SupplierDock},
		})
		w.ready("w2")
	})
}

// TestMachineIsRebuiltAfterAMove imitates clusterctl move: it pauses the object, removes it without a trace, and
// creates it again without status.
func TestMachineIsRebuiltAfterAMove(t *testing.T) {
	eachVersion(t, func(t *testing.T, f form) {
		w := newWorld(t, f, 3)
		w.provisionedCluster("demo")
		w.newMachine("w1", machineOptions{})
		before := w.ready("w1")
		calls := w.infra.made()

		edit(w, read(w, "demo", &clusterv1.Cluster{}), pause(true))
		w.waitCondition("CapstanMachine", "w1", clusterv1.PausedCondition, "True")
		u := w.machine("w1")
		u.SetFinalizers(nil)
		w.must(shared.admin.Update(t.Context(), u))
		w.delete(u)
		w.gone("CapstanMachine", "w1")
		w.touch("CapstanCluster", "demo", 1)
		back := before.DeepCopy()
		back.SetUID("")
		back.SetResourceVersion("")
		back.SetFinalizers(nil)
		unstructured.RemoveNestedField(back.Object, "status")
		w.create(back)
		w.waitCondition("CapstanMachine", "w1", clusterv1.PausedCondition, "True")
		edit(w, read(w, "demo", &clusterv1.Cluster{}), pause(false))
		after := w.ready("w1")

		if made := w.infra.made(); !slices.Equal(made, calls) {
			t.Errorf("the move caused calls of the infrastructure: %v, before %v", made, calls)
		}
		w.Attr("rule", "IM-63 "+string(w.Version))
		if after.GetUID() == before.GetUID() {
			t.Error("the object was not recreated: it still has the old uid")
		}
		if w.providerID(after) != w.providerID(before) || !slices.Equal(w.addresses(after), w.addresses(before)) ||
			w.domain(after) != w.domain(before) ||
			!slices.Equal(w.conditionTypes(after), w.conditionTypes(before)) || !hasFinalizer(after) {
			t.Errorf("after the move %v\nbefore it      %v", after.Object["status"], before.Object["status"])
		}
		for _, kind := range w.conditionTypes(before) {
			if w.condition(after, kind) != w.condition(before, kind) {
				t.Errorf("after the move, condition %s is %q, was %q", kind, w.condition(after, kind),
					w.condition(before, kind))
			}
		}
		t.Attr("rule", "CT-109")
		t.Attr("rule", "CT-110")
		w.Attr("rule", "T-IM-07 "+string(w.Version))
		w.delete(after)
		w.gone("CapstanMachine", "w1")
		if made := w.infra.made("delete"); len(made) != 1 {
			t.Errorf("hosts deleted after the move: %v, want 1", made)
		}
	})
}
