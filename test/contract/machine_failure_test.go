//go:build linux

package contract

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// TestMachineSurvivesErrorsThatPass makes the infrastructure fail three times during creation and three times during
// deletion.
func TestMachineSurvivesErrorsThatPass(t *testing.T) {
	eachVersion(t, func(t *testing.T, f form) {
		w := newWorld(t, f, 2)
		w.provisionedCluster("demo")
		w.infra.fail("create", 3)
		seen := w.watch("CapstanMachine", "w1")
		w.newMachine("w1", machineOptions{})
		w.ready("w1")
		if made := w.infra.made("create", "failed create"); len(made) != 4 || !strings.HasPrefix(made[3], "create") {
			t.Errorf("calls %v, want three that fail and one instance", made)
		}
		w.Attr("rule", "IM-49 "+string(w.Version))
		seen.each(w, 4, func(u *unstructured.Unstructured) {
			if reason, message := w.failure(u); reason+message != "" {
				t.Errorf("a temporary error was reported as a terminal failure: %s %s (IM-24)", reason, message)
			}
		})
		w.Attr("rule", "IM-24 "+string(w.Version))
		w.Attr("rule", "T-IM-08 "+string(w.Version))

		w.infra.fail("delete", 3)
		w.delete(w.machine("w1"))
		w.until("an attempt to delete the instance has failed",
			func() bool { return len(w.infra.made("failed delete")) > 0 })
		if u := w.machine("w1"); len(w.infra.made("delete")) == 0 &&
			(u == nil || !hasFinalizer(u) || u.GetDeletionTimestamp().IsZero()) {
			t.Error("the object must stay, with its finalizer, while the instance can't be deleted (IM-59)")
		}
		w.Attr("rule", "IM-59 "+string(w.Version))
		w.gone("CapstanMachine", "w1")
		if made := w.infra.made("delete", "failed delete"); len(made) != 4 || !strings.HasPrefix(made[3], "delete") {
			t.Errorf("calls %v, want three that fail and one that deletes", made)
		}
		w.Attr("rule", "IM-60 "+string(w.Version))
		w.Attr("rule", "T-IM-11 "+string(w.Version))
	})
}

// TestMachineFailsForGood makes a bootstrap fail. The bootstrap is not tried again.
func TestMachineFailsForGood(t *testing.T) {
	eachVersion(t, func(t *testing.T, f form) {
		w := newWorld(t, f, 3)
		w.provisionedCluster("demo")
		w.infra.set(func() { w.infra.fails["w1"] = true })
		w.newMachine("w1", machineOptions{})
		u := w.waitCondition("CapstanMachine", "w1", infrav1.ReadyCondition, "False "+infrav1.BootstrapFailedReason)
		w.checkFailure(u, "exit code 1")
		w.Attr("rule", "IM-22 "+string(w.Version))
		w.Attr("rule", "IM-23 "+string(w.Version))
		w.Attr("rule", "IM-50 "+string(w.Version))
		if w.providerID(u) != "" || w.flag(u) {
			t.Errorf("a failed machine has provider id %q, provisioned %t", w.providerID(u), w.flag(u))
		}
		calls := w.infra.made()
		w.touch("CapstanMachine", "w1", 3)
		w.newMachine("w2", machineOptions{})
		w.ready("w2")
		if made := w.infra.made(); len(made) != len(calls)+1 {
			t.Errorf("touching a failed machine caused calls: %v, before %v", made, calls)
		}
		w.delete(w.machine("w1"))
		w.gone("CapstanMachine", "w1")
		w.Attr("rule", "T-IM-09 "+string(w.Version))
	})
}

// checkFailure checks how a terminal failure is reported: by two fields in v1beta1, and by a condition with a
// documented reason in v1beta2 (IM-50).
func (w *world) checkFailure(u *unstructured.Unstructured, words string) {
	w.Helper()
	reason, message := w.failure(u)
	switch w.Version {
	case v1beta1:
		if reason == "" || strings.ContainsAny(reason, " .") || !strings.Contains(message, words) {
			w.Errorf("failureReason %q, failureMessage %q; want a word, and a sentence with %q", reason, message, words)
		}
	case v1beta2:
		if _, _, message := w.conditionAndMessage(u, infrav1.ReadyCondition); !strings.Contains(message, words) {
			w.Errorf("condition Ready says %q, want a message with %q", message, words)
		}
		if reason+message != "" {
			w.Errorf("contract v1beta2 has no failure fields: %q, %q", reason, message)
		}
	}
}

// TestMachineOfAFailureThatOthersReport: if somebody else sets the failure fields of a machine, the provider stops
// working on the machine (IM-42).
func TestMachineOfAFailureThatOthersReport(t *testing.T) {
	f := form{v1beta1}
	w := newWorld(t, f, 2)
	w.newCluster("demo")
	w.until("the cluster is provisioned", func() bool { return w.flag(w.cluster("demo")) })
	w.newMachine("w1", machineOptions{})
	w.waitCondition("CapstanMachine", "w1", infrav1.ReadyCondition, "False "+infrav1.WaitingForClusterInfrastructureReason)
	u := w.machine("w1")
	w.must(unstructured.SetNestedField(u.Object, "InvalidConfiguration", "status", "failureReason"))
	w.must(unstructured.SetNestedField(u.Object, "somebody knows better", "status", "failureMessage"))
	w.must(shared.admin.Status().Update(t.Context(), u))
	w.setProvisioned("demo", true)
	w.newMachine("w2", machineOptions{})
	w.ready("w2")
	w.untouched("w1")
	if reason, message := w.failure(w.machine("w1")); reason != "InvalidConfiguration" ||
		message != "somebody knows better" {
		t.Errorf("the failure was changed to %q, %q", reason, message)
	}
	w.Attr("rule", "IM-42 v1beta1")
	w.delete(w.machine("w1"))
	w.gone("CapstanMachine", "w1")
}

// TestMachineWithoutOwnerIsLetGo deletes a waiting machine and a machine with an instance, both without an owner.
func TestMachineWithoutOwnerIsLetGo(t *testing.T) {
	eachVersion(t, func(t *testing.T, f form) {
		w := newWorld(t, f, 2)
		w.provisionedCluster("demo")
		w.newMachine("waits", machineOptions{noData: true})
		w.waitCondition("CapstanMachine", "waits", infrav1.ReadyCondition, "False "+infrav1.WaitingForBootstrapDataReason)
		w.newMachine("runs", machineOptions{})
		w.ready("runs")
		orphan := func(name string) {
			u := w.machine(name)
			u.SetOwnerReferences(nil)
			w.must(shared.admin.Update(t.Context(), u))
			w.delete(u)
		}
		orphan("waits")
		w.gone("CapstanMachine", "waits")
		if made := w.infra.made("delete"); len(made) != 0 {
			t.Errorf("the deletion of a machine without owner and instance caused calls %v", made)
		}
		w.Attr("rule", "T-IM-13 "+string(w.Version))
		// The deletion does not wait for the instance, although the host can't be deleted.
		w.infra.fail("delete", 1000)
		orphan("runs")
		w.gone("CapstanMachine", "runs")
		w.Attr("rule", "IM-62 "+string(w.Version))
		w.infra.fail("delete", 0)
		w.until("the host that no machine has any more returns to the inventory (D-09)",
			func() bool { return len(w.claims()) == 0 })
	})
}

// TestMachineWhoseHostDies silences the agent of a host for a while, then removes the host from the inventory.
func TestMachineWhoseHostDies(t *testing.T) {
	eachVersion(t, func(t *testing.T, f form) {
		w := newWorld(t, f, 2, func(w *world) { w.options.HeartbeatTimeout = 3 * time.Second })
		w.provisionedCluster("demo")
		seen := w.watch("CapstanMachine", "w1")
		w.newMachine("w1", machineOptions{})
		w.ready("w1")
		host := w.claims()["w1"]
		w.infra.set(func() { w.infra.dead[host] = true })
		u := w.waitCondition("CapstanMachine", "w1", infrav1.ReadyCondition, "False "+infrav1.HostOfflineReason)
		if reason, message := w.failure(u); reason+message != "" {
			t.Errorf("a silent host may come back, but was reported as a terminal failure: %s %s (IM-24)",
				reason, message)
		}
		w.Attr("rule", "IM-24 "+string(w.Version))
		w.infra.set(func() { delete(w.infra.dead, host) })
		w.ready("w1")

		// A host that was removed from the inventory does not come back.
		w.vanish(host)
		u = w.waitCondition("CapstanMachine", "w1", infrav1.ReadyCondition, "False "+infrav1.HostGoneReason)
		w.checkFailure(u, "delete the Machine")
		w.Attr("rule", "IM-50 "+string(w.Version))
		if len(w.claims()) != 0 {
			t.Errorf("the machine took a second host: %v (IM-63)", w.claims())
		}
		provisioned := false
		seen.each(w, 5, func(u *unstructured.Unstructured) {
			if provisioned && !w.flag(u) {
				t.Error("the machine was provisioned, and later not (IM-20)")
			}
			provisioned = provisioned || w.flag(u)
		})
		w.Attr("rule", "IM-20 "+string(w.Version))
		w.Attr("rule", "T-IM-16 "+string(w.Version))
		w.delete(w.machine("w1"))
		w.gone("CapstanMachine", "w1")
	})
}

// TestHostThatIsGivenUp deletes a machine whose owned host has died. The deletion waits for the proof that the host is
// clean, until somebody abandons the host. The host becomes free after its agent has come back and cleaned it.
func TestHostThatIsGivenUp(t *testing.T) {
	eachVersion(t, func(t *testing.T, f form) {
		w := newWorld(t, f, 0, func(w *world) { w.options.HeartbeatTimeout = 3 * time.Second })
		const host = "owned-01"
		w.create(&infrav1.CapstanHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: host}, Spec: infrav1.CapstanHostSpec{Zone: "zone-a"},
		})
		w.provisionedCluster("demo")
		w.newMachine("w1", machineOptions{})
		w.ready("w1")
		w.infra.set(func() { w.infra.dead[host] = true })
		w.waitCondition("CapstanMachine", "w1", infrav1.ReadyCondition, "False "+infrav1.HostOfflineReason)
		w.delete(w.machine("w1"))
		provider := w.host(host).Spec.Claim.ProviderID
		w.until("the machine says how to abandon its host", func() bool {
			_, _, message := w.conditionAndMessage(w.machine("w1"), infrav1.ReadyCondition)
			return strings.Contains(message, infrav1.AbandonAnnotation+"="+provider)
		})
		w.Attr("rule", "IM-59 "+string(w.Version))
		edit(w, w.host(host), func(h *infrav1.CapstanHost) {
			h.Annotations = map[string]string{infrav1.AbandonAnnotation: provider}
		})
		w.gone("CapstanMachine", "w1")
		if h := w.host(host); h.Spec.Claim == nil || !h.Spec.Claim.Released {
			t.Errorf("the host is free, although its agent has not cleaned it: %+v", h.Spec.Claim)
		}
		w.infra.set(func() { delete(w.infra.dead, host) })
		w.until("the host is clean", func() bool { return w.host(host).Spec.Claim == nil })
	})
}

// TestFilters runs the provider for one namespace, then for one label.
func TestFilters(t *testing.T) {
	eachVersion(t, func(t *testing.T, f form) {
		mine := newWorld(t, f, 3)
		// The other namespace has everything that it needs except a provider.
		theirs := newWorld(t, f, 1)
		theirs.stop()
		theirs.newCluster("demo")
		theirs.setProvisioned("demo", true)
		theirs.newMachine("w1", machineOptions{})
		mine.provisionedCluster("demo")
		mine.newMachine("w1", machineOptions{})
		mine.ready("w1")
		for kind, name := range map[string]string{"CapstanMachine": "w1", "CapstanCluster": "demo"} {
			if u := theirs.get(kind, name); hasFinalizer(u) || len(theirs.conditionTypes(u)) != 0 {
				t.Errorf("%s of another namespace was reconciled: %v", kind, u.Object)
			}
		}
		mine.Attr("rule", "IC-39 "+string(f.Version))

		mine.stop()
		mine.options.WatchFilter = "x"
		mine.start()
		label := map[string]string{"cluster.x-k8s.io/watch-filter": "x"}
		mine.newMachine("plain", machineOptions{})
		mine.newMachine("labelled", machineOptions{labels: label})
		mine.newCluster("plain")
		edit(mine, mine.host("host-02"), func(h *infrav1.CapstanHost) { h.Labels = label })
		mine.until("the labelled machine has claimed the labelled host",
			func() bool { return mine.claims()["labelled"] == "host-02" })
		mine.ready("labelled")
		for kind, name := range map[string]string{"CapstanMachine": "plain", "CapstanCluster": "plain"} {
			if u := mine.get(kind, name); hasFinalizer(u) || len(mine.conditionTypes(u)) != 0 {
				t.Errorf("%s without the label was reconciled: %v", kind, u.Object)
			}
		}
		mine.Attr("rule", "IM-66 "+string(f.Version))
		if made := slices.Compact(mine.infra.made("balance")); len(made) != 1 {
			t.Errorf("balancers were made: %v, want one, for the labelled cluster", made)
		}
		mine.Attr("rule", "IC-40 "+string(f.Version))
		mine.Attr("rule", "T-IM-19 "+string(f.Version))
		mine.Attr("rule", "T-IC-12 "+string(f.Version))
	})
}
