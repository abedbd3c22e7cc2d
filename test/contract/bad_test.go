//go:build linux

package contract

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/test/contract/rule"
)

// TestBadReferences gives objects owners that are none, and references to what does not exist or goes away.
func TestBadReferences(t *testing.T) {
	eachVersion(t, func(t *testing.T, f form) {
		rule.In(t, f.Version, "IM-41", "IM-43", "IC-46", "SG-08")
		w := newWorld(t, f, 4)
		w.provisionedCluster("demo")

		// Owners of another kind, of another group, and one that does not exist.
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
				t.Errorf("machine %s has a finalizer without owner", name)
			}
		}
		c := w.newObject("CapstanCluster")
		c.SetNamespace(w.ns)
		c.SetName("other-kind")
		c.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "x", UID: "1"}})
		w.create(c)
		w.waitCondition("CapstanCluster", "other-kind", infrav1.ReadyCondition, "False "+infrav1.WaitingForOwnerReason)

		// Bootstrap data in a Secret that does not exist, then exists without data, then with it.
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
		w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name}, Type: clusterv1.ClusterSecretType})
		secret := read(w, name, &corev1.Secret{})
		w.until("the machine says that the Secret is not meant to be used so", func() bool {
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

// TestClusterIsGone deletes the Cluster under its machines: they can still be deleted, and so can the CapstanCluster.
func TestClusterIsGone(t *testing.T) {
	eachVersion(t, func(t *testing.T, f form) {
		rule.In(t, f.Version, "IM-43", "IM-46", "IM-57", "IC-53")
		w := newWorld(t, f, 3)
		c := w.provisionedCluster("demo")
		w.newMachine("cp", machineOptions{controlPlane: true})
		w.newMachine("w1", machineOptions{})
		w.ready("cp")
		w.ready("w1")
		w.delete(c) // there is no core here that would hold it
		w.newMachine("late", machineOptions{})
		w.waitCondition("CapstanMachine", "late", infrav1.ReadyCondition, "False "+infrav1.WaitingForClusterInfrastructureReason)
		w.untouched("late")
		w.delete(w.cluster("demo"))
		for _, name := range []string{"late", "cp", "w1"} {
			if w.cluster("demo") == nil {
				t.Errorf("the CapstanCluster went before machine %s", name)
			}
			w.delete(w.machine(name))
			w.gone("CapstanMachine", name)
		}
		w.gone("CapstanCluster", "demo")
		if made := w.infra.made("delete", "unbalance"); len(made) != 3 {
			t.Errorf("calls %v, want two instances and the balancer deleted", made)
		}
	})
}

// TestHostVanishes takes a host out of the inventory while it is being bootstrapped: the machine says so and takes no other one.
func TestHostVanishes(t *testing.T) {
	eachVersion(t, func(t *testing.T, f form) {
		rule.In(t, f.Version, "IM-49", "IM-63")
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
			t.Errorf("a machine whose host vanished has provider id %q, provisioned %t", w.providerID(u), w.flag(u))
		}
		if made := w.infra.made("create"); len(made) != 2 || slices.Compact(made)[0] == "" {
			t.Errorf("instances were made: %v", made)
		}
		w.delete(w.machine("w1"))
		w.gone("CapstanMachine", "w1")
	})
}

// TestOrphanedHostIsShown: a claim whose machine is gone is not released by itself, for the machine may be on its way here; the host says so.
func TestOrphanedHostIsShown(t *testing.T) {
	f := form{rule.V1Beta2}
	rule.Both(t, "SG-05")
	w := newWorld(t, f, 1)
	w.provisionedCluster("demo")
	w.newMachine("w1", machineOptions{})
	w.ready("w1")
	u := w.machine("w1")
	u.SetFinalizers(nil)
	w.must(shared.admin.Update(t.Context(), u))
	w.delete(u)
	w.until("the host tells that its machine is gone", func() bool {
		h := w.host("host-01")
		return slices.ContainsFunc(h.Status.Conditions, func(c metav1.Condition) bool {
			return c.Type == infrav1.ReadyCondition && c.Reason == infrav1.MachineGoneReason && strings.Contains(c.Message, "released: true")
		})
	})
	edit(w, w.host("host-01"), func(h *infrav1.CapstanHost) { h.Spec.Claim.Released = true })
	w.until("the host is free again", func() bool { return w.host("host-01").Spec.Claim == nil })
}
