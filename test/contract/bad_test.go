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
	"sigs.k8s.io/cluster-api/util/annotations"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// TestBadReferences gives objects invalid owners, and references to objects that do not exist or are deleted.
func TestBadReferences(t *testing.T) {
	eachVersion(t, func(t *testing.T, f form) {
		w := newWorld(t, f, 4)
		w.provisionedCluster("demo")

		// Machines with invalid owners: of another kind, of another group, and one that does not exist.
		for name, owner := range map[string]metav1.OwnerReference{
			"other-kind":  {APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: "x", UID: "1"},
			"other-group": {APIVersion: "example.com/v1", Kind: "Machine", Name: "x", UID: "1"},
			"missing":     {APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "not-there", UID: "1"},
		} {
			u := w.newObject("CapstanMachine")
			u.SetNamespace(w.ns)
			u.SetName(name)
			u.SetOwnerReferences([]metav1.OwnerReference{owner})
			w.create(u)
			u = w.waitCondition("CapstanMachine", name, infrav1.ReadyCondition, "False "+infrav1.WaitingForOwnerReason)
			if hasFinalizer(u) {
				t.Errorf("machine %s has a finalizer, but no valid owner", name)
			}
		}
		w.Attr("rule", "IM-41 "+string(w.Version))
		c := w.newObject("CapstanCluster")
		c.SetNamespace(w.ns)
		c.SetName("other-kind")
		c.SetOwnerReferences([]metav1.OwnerReference{
			{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "x", UID: "1"},
		})
		w.create(c)
		waits := "False " + infrav1.WaitingForOwnerReason
		c = w.waitCondition("CapstanCluster", "other-kind", infrav1.ReadyCondition, waits)
		if hasFinalizer(c) {
			t.Error("a cluster has a finalizer, but no valid owner")
		}
		w.Attr("rule", "IC-46 "+string(w.Version))

		// A machine whose Secret with bootstrap data at first does not exist, then has no data, then has data.
		w.newMachine("w1", machineOptions{})
		w.ready("w1")
		m := w.newMachine("w2", machineOptions{noData: true})
		w.waitCondition("CapstanMachine", "w2", infrav1.ReadyCondition, "False "+infrav1.WaitingForBootstrapDataReason)
		name := "late-data"
		edit(w, m, func(m *clusterv1.Machine) { m.Spec.Bootstrap = clusterv1.Bootstrap{DataSecretName: &name} })
		w.until("the machine says which Secret is missing", func() bool {
			_, _, message := w.conditionAndMessage(w.machine("w2"), infrav1.ReadyCondition)
			return strings.Contains(message, "Secret "+name)
		})
		w.untouched("w2")
		w.create(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name}, Type: clusterv1.ClusterSecretType,
		})
		secret := read(w, name, &corev1.Secret{})
		w.until("the machine says that the Secret may not be used as bootstrap data", func() bool {
			_, reason, message := w.conditionAndMessage(w.machine("w2"), infrav1.ReadyCondition)
			return reason == infrav1.BootstrapDataRefusedReason && strings.Contains(message, infrav1.BootstrapDataLabel)
		})
		w.untouched("w2")
		edit(w, secret, func(s *corev1.Secret) { s.Labels = map[string]string{infrav1.BootstrapDataLabel: ""} })
		w.untouched("w2")
		edit(w, secret, func(s *corev1.Secret) { s.Data = map[string][]byte{"value": []byte("#cloud-config\n")} })
		w.ready("w2")
	})
}

// TestClusterIsGone deletes a Cluster that still has machines: the machines can still be deleted, and so can the
// CapstanCluster.
func TestClusterIsGone(t *testing.T) {
	eachVersion(t, func(t *testing.T, f form) {
		w := newWorld(t, f, 3)
		c := w.provisionedCluster("demo")
		w.newMachine("cp", machineOptions{controlPlane: true})
		w.newMachine("w1", machineOptions{})
		w.ready("cp")
		w.ready("w1")
		w.delete(c) // no core runs here that would delay the deletion
		w.newMachine("late", machineOptions{})
		w.waitCondition("CapstanMachine", "late", infrav1.ReadyCondition,
			"False "+infrav1.WaitingForClusterInfrastructureReason)
		w.untouched("late")
		w.Attr("rule", "IM-43 "+string(w.Version))
		w.delete(w.cluster("demo"))
		for _, name := range []string{"late", "cp", "w1"} {
			if w.cluster("demo") == nil {
				t.Errorf("the CapstanCluster is gone before machine %s", name)
			}
			w.delete(w.machine(name))
			w.gone("CapstanMachine", name)
		}
		w.gone("CapstanCluster", "demo")
		if made := w.infra.made("delete", "unbalance"); len(made) != 3 {
			t.Errorf("calls %v, want two instances and the balancer deleted", made)
		}
		w.Attr("rule", "IM-46 "+string(w.Version))
		w.Attr("rule", "IM-57 "+string(w.Version))
		w.Attr("rule", "IC-53 "+string(w.Version))
	})
}

// TestHostVanishes removes a host from the inventory while it is being bootstrapped: the machine reports that and takes
// no other host.
func TestHostVanishes(t *testing.T) {
	eachVersion(t, func(t *testing.T, f form) {
		w := newWorld(t, f, 2)
		w.provisionedCluster("demo")
		w.infra.set(func() { w.infra.dead["host-01"], w.infra.dead["host-02"] = true, true })
		w.newMachine("w1", machineOptions{})
		w.waitCondition("CapstanMachine", "w1", infrav1.ReadyCondition, "False "+infrav1.BootstrappingReason)
		host := w.claims()["w1"]
		w.until("the host is powered on", func() bool { return len(w.infra.made("create")) == 1 })
		w.vanish(host)
		w.waitCondition("CapstanMachine", "w1", infrav1.ReadyCondition, "False "+infrav1.HostGoneReason)
		w.infra.set(func() { clear(w.infra.dead) })
		w.touch("CapstanMachine", "w1", 2)
		w.newMachine("w2", machineOptions{})
		w.ready("w2")
		w.untouched("w1")
		if u := w.machine("w1"); w.flag(u) || w.providerID(u) != "" {
			t.Errorf("a machine whose host vanished has provider id %q, provisioned %t; want neither", w.providerID(u),
				w.flag(u))
		}
		if made := w.infra.made("create"); len(made) != 2 || slices.Compact(made)[0] == "" {
			t.Errorf("instances were made: %v, want one for each machine", made)
		}
		w.Attr("rule", "IM-63 "+string(w.Version))
		w.delete(w.machine("w1"))
		w.gone("CapstanMachine", "w1")
	})
}

// TestOrphanedHostIsShown: a claim whose machine is gone is not released automatically, because a move may still bring
// the machine here; the host reports it.
func TestOrphanedHostIsShown(t *testing.T) {
	f := form{v1beta2}
	w := newWorld(t, f, 1)
	w.provisionedCluster("demo")
	w.newMachine("w1", machineOptions{})
	w.ready("w1")
	edit(w, w.machine("w1"), func(u *unstructured.Unstructured) {
		// A paused machine does not get its finalizer back.
		annotations.AddAnnotations(u, map[string]string{clusterv1.PausedAnnotation: ""})
	})
	w.waitCondition("CapstanMachine", "w1", clusterv1.PausedCondition, "True "+clusterv1.PausedReason)
	edit(w, w.machine("w1"), func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
	w.delete(w.machine("w1"))
	w.until("the host reports that its machine is gone", func() bool {
		h := w.host("host-01")
		return slices.ContainsFunc(h.Status.Conditions, func(c metav1.Condition) bool {
			return c.Type == infrav1.ReadyCondition && c.Reason == infrav1.MachineGoneReason &&
				strings.Contains(c.Message, "released: true")
		})
	})
	edit(w, w.host("host-01"), func(h *infrav1.CapstanHost) { h.Spec.Claim.Released = true })
	w.until("the host is free again", func() bool { return w.host("host-01").Spec.Claim == nil })
}

// TestNamesMeanNothing uses misleading names: each host is named after the machine on the other host, and a new machine
// gets the name of a deleted machine. Only the claim decides which host and which machine belong together.
func TestNamesMeanNothing(t *testing.T) {
	f := form{v1beta2}
	w := newWorld(t, f, 0)
	for name, zone := range map[string]string{"w1-01": "zone-b", "w2-02": "zone-a"} {
		w.create(&infrav1.CapstanHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name},
			Spec:       infrav1.CapstanHostSpec{Zone: zone, Supplier: infrav1.SupplierDock},
		})
	}
	w.provisionedCluster("demo")
	w.newMachine("w1", machineOptions{zone: "zone-a"})
	second := w.newMachine("w2", machineOptions{zone: "zone-b"})
	w.ready("w1")
	w.ready("w2")
	if claims := w.claims(); claims["w1"] != "w2-02" || claims["w2"] != "w1-01" {
		t.Fatalf("machines have the hosts %v, want w2-02 for w1, and w1-01 for w2", claims)
	}
	w.restart()
	w.delete(w.machine("w1"))
	w.gone("CapstanMachine", "w1")
	if made := w.infra.made("delete"); !slices.Equal(made, []string{"delete w2-02"}) {
		t.Errorf("calls %v, want only the deletion of the host that w1 claimed, not of the host named after w1", made)
	}
	if u := w.machine("w2"); !w.is(u, infrav1.ReadyCondition, "True") || w.claims()["w2"] != "w1-01" {
		t.Errorf("machine w2 has host %s, Ready %s, want w1-01 and True", w.claims()["w2"],
			w.condition(u, infrav1.ReadyCondition))
	}

	// Remove the object without a trace while its host still runs, and create another object with the same name.
	u := w.machine("w2")
	u.SetFinalizers(nil)
	w.must(shared.admin.Update(t.Context(), u))
	w.delete(u)
	w.gone("CapstanMachine", "w2")
	was := w.host("w1-01").Spec.Claim.MachineUID
	w.newCapstanMachine(second, machineOptions{})
	w.waitCondition("CapstanMachine", "w2", infrav1.ReadyCondition, "False "+infrav1.NoHostMatchesReason)
	if c := w.host("w1-01").Spec.Claim; c == nil || c.MachineUID != was || c.Released {
		t.Errorf("the host of the former machine has the claim %+v, want that of the former machine", c)
	}
	t.Attr("rule", "SG-08")
}
