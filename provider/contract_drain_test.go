package provider

import (
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// drained returns condition Drained of a host, with its message.
func (w *world) drained(name string) string {
	c := conditions.Get(w.host(name), infrav1.DrainedCondition)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason + ": " + c.Message
}

func TestADrainedHostLosesItsMachineAndGetsNoOther(t *testing.T) {
	hook := func(m *clusterv1.Machine, _ *infrav1.CapstanMachine) { m.Finalizers = []string{"test/hook"} }
	w := newWorld(t, join(hosts(1, ""), demo(infrav1.LoadBalancerLocal), member("w1", false, hook))...)
	w.settle()
	edit(w, w.host("host-01"), func(h *infrav1.CapstanHost) { h.Spec.Drain = true })
	w.settle()
	machine := get(w, "w1", &clusterv1.Machine{})
	if machine.DeletionTimestamp.IsZero() {
		t.Fatal("the Machine is not deleted")
	}
	if got := w.drained("host-01"); !strings.HasPrefix(got, "False WaitingForMachine: Machine w1 is being deleted") {
		t.Errorf("while the Machine is being deleted, Drained is %s", got)
	}
	if h := w.host("host-01"); h.Spec.Claim == nil || h.Spec.Claim.Released {
		t.Error("the host was released before its CapstanMachine was deleted")
	}
	w.must(w.api.Delete(t.Context(), w.machine("w1"))) // as Cluster API does when the node is drained
	w.settle()
	if got := w.drained("host-01"); !strings.HasPrefix(got, "True Drained") {
		t.Errorf("after the deletion of the CapstanMachine, Drained is %s", got)
	}

	for _, o := range member("w2", false) {
		w.must(w.api.Create(t.Context(), o))
	}
	w.settle()
	w.readyIs(w.machine("w2"), "False NoHostMatches")
	edit(w, w.host("host-01"), func(h *infrav1.CapstanHost) { h.Spec.Drain = false })
	w.settle()
	w.readyIs(w.machine("w2"), "True Ready")
	if got := w.drained("host-01"); got != "" {
		t.Errorf("after spec.drain was reset, Drained is %s", got)
	}
}

func TestTheLastMachineOfAControlPlaneIsNotDrained(t *testing.T) {
	w := newWorld(t, join(hosts(2, ""), demo(infrav1.LoadBalancerLocal), member("cp", true))...)
	w.settle()
	name := w.machine("cp").Status.Host
	edit(w, w.host(name), func(h *infrav1.CapstanHost) { h.Spec.Maintenance = "new disks" })
	w.settle()
	if got := w.drained(name); !strings.HasPrefix(got, "False ControlPlaneAtRisk: Machine cp is the only control plane") {
		t.Errorf("Drained is %s", got)
	}
	if !w.exists("cp", &clusterv1.Machine{}) || w.host(name).Status.Phase != infrav1.HostInUse {
		t.Error("the control plane is gone")
	}
}

func TestAHostInMaintenanceMayBeOff(t *testing.T) {
	w := newWorld(t, hosts(1, "")...)
	w.settle()
	edit(w, w.host("host-01"), func(h *infrav1.CapstanHost) { h.Spec.Maintenance = "new disks" })
	w.settle()
	w.dead["host-01"] = true
	for range 12 {
		w.pass()
		w.clock.SetTime(w.clock.Now().Add(5e9))
	}
	w.readyIs(w.host("host-01"), "False InMaintenance")
	h := w.host("host-01")
	if c := conditions.Get(h, infrav1.ReadyCondition); h.Status.Phase != infrav1.HostMaintenance ||
		!strings.Contains(c.Message, "new disks; its agent does not report") {
		t.Errorf("phase %s, %+v", h.Status.Phase, c)
	}
	delete(w.dead, "host-01")
	edit(w, h, func(h *infrav1.CapstanHost) { h.Spec.Maintenance = "" })
	w.settle()
	w.readyIs(w.host("host-01"), "True Ready")
}
