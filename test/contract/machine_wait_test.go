//go:build linux

package contract

import (
	"testing"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// TestMachineWaits creates machines that lack something, and one that has everything. The progress of the complete
// machine shows that the provider was working meanwhile.
func TestMachineWaits(t *testing.T) {
	eachVersion(t, func(t *testing.T, f form) {
		w := newWorld(t, f, 6)
		w.provisionedCluster("demo")
		w.newCluster("unready")
		w.until("the other CapstanCluster is provisioned, too, but its Cluster does not say so",
			func() bool { return w.flag(w.cluster("unready")) })

		w.newMachine("no-owner", machineOptions{noOwner: true})
		w.newMachine("no-cluster", machineOptions{cluster: "missing"})
		w.newMachine("no-cluster-no-label", machineOptions{cluster: "missing", noLabel: true})
		w.newMachine("unready", machineOptions{cluster: "unready"})
		w.newMachine("no-data", machineOptions{noData: true})
		waiting := map[string]struct {
			reason    string
			finalizer bool
		}{
			"no-owner":            {infrav1.WaitingForOwnerReason, false},
			"no-cluster":          {infrav1.WaitingForClusterInfrastructureReason, false},
			"no-cluster-no-label": {infrav1.WaitingForClusterInfrastructureReason, false},
			"unready":             {infrav1.WaitingForClusterInfrastructureReason, true},
			"no-data":             {infrav1.WaitingForBootstrapDataReason, true},
		}
		for name, want := range waiting {
			w.waitCondition("CapstanMachine", name, infrav1.ReadyCondition, "False "+want.reason)
		}
		for name := range waiting {
			w.touch("CapstanMachine", name, 2)
		}
		w.newMachine("complete", machineOptions{})
		w.ready("complete")
		for name, want := range waiting {
			u := w.machine(name)
			if hasFinalizer(u) != want.finalizer {
				t.Errorf("machine %s unexpectedly has, or lacks, our finalizer: %v", name, u.GetFinalizers())
			}
			if want.finalizer {
				w.Attr("rule", "IM-44 "+string(w.Version))
			}
			if w.providerID(u) != "" || w.flag(u) {
				t.Errorf("machine %s waits, but has provider id %q, provisioned %t", name, w.providerID(u), w.flag(u))
			}
			if owners := len(u.GetOwnerReferences()); owners == 0 && name != "no-owner" {
				t.Errorf("machine %s lost its owner (IM-47)", name)
			}
			w.untouched(name)
			switch name {
			case "no-owner":
				w.Attr("rule", "IM-41 "+string(w.Version))
				w.Attr("rule", "T-IM-01 "+string(w.Version))
			case "no-cluster-no-label":
				w.Attr("rule", "IM-43 "+string(w.Version))
				w.Attr("rule", "T-IM-02 "+string(w.Version))
			case "unready":
				w.Attr("rule", "IM-45 "+string(w.Version))
				w.Attr("rule", "IM-47 "+string(w.Version))
				w.Attr("rule", "T-IM-03 "+string(w.Version))
			case "no-data":
				w.Attr("rule", "IM-48 "+string(w.Version))
				w.Attr("rule", "T-IM-04 "+string(w.Version))
			}
		}

		// A machine that waits can be deleted (IM-46), and its deletion creates nothing.
		for name := range waiting {
			w.delete(w.machine(name))
		}
		for name := range waiting {
			w.gone("CapstanMachine", name)
		}
		if made := w.infra.made("create"); len(made) != 1 {
			t.Errorf("instances were made: %v, want one, for machine complete", made)
		}

		// A machine with an instance can be deleted, too, although the Cluster's infrastructure is no longer ready.
		w.setProvisioned("demo", false)
		w.delete(w.machine("complete"))
		w.gone("CapstanMachine", "complete")
		if made := w.infra.made("create", "delete"); len(made) != 2 {
			t.Errorf("calls %v, want one instance made and deleted", made)
		}
		w.Attr("rule", "IM-46 "+string(w.Version))
		w.Attr("rule", "T-IM-12 "+string(w.Version))
	})
}

// TestMachineGoesOnWhenItHasAll supplies what the machine lacks, one thing after the other.
func TestMachineGoesOnWhenItHasAll(t *testing.T) {
	eachVersion(t, func(t *testing.T, f form) {
		w := newWorld(t, f, 2)
		w.newCluster("demo")
		w.until("the cluster is provisioned", func() bool { return w.flag(w.cluster("demo")) })
		w.newMachine("w1", machineOptions{noOwner: true, noData: true})
		w.waitCondition("CapstanMachine", "w1", infrav1.ReadyCondition, "False "+infrav1.WaitingForOwnerReason)

		m := read(w, "w1", &clusterv1.Machine{})
		u := w.machine("w1")
		u.SetOwnerReferences(append(u.GetOwnerReferences(), ownerMachine(m)))
		w.must(shared.admin.Update(t.Context(), u))
		w.waitCondition("CapstanMachine", "w1", infrav1.ReadyCondition,
			"False "+infrav1.WaitingForClusterInfrastructureReason)
		w.setProvisioned("demo", true)
		w.waitCondition("CapstanMachine", "w1", infrav1.ReadyCondition, "False "+infrav1.WaitingForBootstrapDataReason)
		// This Machine has no configRef. If it had one, the Machine would have to control the configuration, and the
		// configuration would have to control the Secret.
		edit(w, m, func(m *clusterv1.Machine) {
			m.Spec.Bootstrap = clusterv1.Bootstrap{DataSecretName: ptr.To("w1-data")}
		})
		w.ready("w1")
		w.delete(w.machine("w1"))
		w.gone("CapstanMachine", "w1")
		w.Attr("rule", "IM-40 "+string(w.Version))
	})
}
