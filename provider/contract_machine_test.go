package provider

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// oneWorker returns a world with one machine, a worker, after these edits.
func oneWorker(t *testing.T, edits ...machineEdit) *world {
	return newWorld(t, join(hosts(2, infrav1.SupplierDock), demo(infrav1.LoadBalancerLocal),
		member("w1", false, edits...))...)
}

// touchesNoHost fails the test if a host is claimed or powered on.
func (w *world) touchesNoHost() {
	w.t.Helper()
	for _, h := range w.allHosts() {
		if h.Spec.Claim != nil {
			w.t.Errorf("host %s is claimed", h.Name)
		}
	}
	if len(w.running) > 0 {
		w.t.Errorf("hosts run: %v", w.running)
	}
}

func (w *world) readyIs(o conditions.Getter, want string) {
	w.t.Helper()
	c := conditions.Get(o, infrav1.ReadyCondition)
	if c == nil || string(c.Status)+" "+c.Reason != want {
		w.t.Errorf("Ready is %+v, want %s", c, want)
	}
}

func TestMachineWaits(t *testing.T) {
	noOwner := func(_ *clusterv1.Machine, c *infrav1.CapstanMachine) { c.OwnerReferences = nil }
	noCluster := func(m *clusterv1.Machine, c *infrav1.CapstanMachine) { m.Spec.ClusterName = "missing" }
	noData := func(m *clusterv1.Machine, _ *infrav1.CapstanMachine) { m.Spec.Bootstrap.DataSecretName = nil }
	otherData := func(m *clusterv1.Machine, _ *infrav1.CapstanMachine) {
		m.Spec.Bootstrap.DataSecretName = ptr.To("missing")
	}
	otherZone := func(m *clusterv1.Machine, _ *infrav1.CapstanMachine) { m.Spec.FailureDomain = "zone-x" }
	badSelector := func(_ *clusterv1.Machine, c *infrav1.CapstanMachine) {
		c.Spec.HostSelector = &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "x", Operator: "Nonsense"}},
		}
	}
	for name, c := range map[string]struct {
		edit      machineEdit
		hold      bool // the Cluster's infrastructure doesn't become ready
		finalizer bool
		ready     string
	}{
		"T-IM-01: without owner (IM-41)": {edit: noOwner, ready: "False WaitingForOwner"},
		"T-IM-02: without Cluster (IM-43)": {
			edit: noCluster, ready: "False WaitingForClusterInfrastructure",
		},
		"T-IM-03: without the Cluster's infrastructure (IM-45)": {
			hold: true, finalizer: true, ready: "False WaitingForClusterInfrastructure",
		},
		"T-IM-04: without bootstrap data (IM-48)": {
			edit: noData, finalizer: true, ready: "False WaitingForBootstrapData",
		},
		"the Secret of the bootstrap data doesn't exist": {
			edit: otherData, finalizer: true, ready: "False WaitingForBootstrapData",
		},
		"no host is in the failure domain (IM-17)": {
			edit: otherZone, finalizer: true, ready: "False NoHostMatches",
		},
		"a selector that can't be used is reported and not retried": {
			edit: badSelector, finalizer: true, ready: "False NoHostMatches",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.edit == nil {
				c.edit = func(*clusterv1.Machine, *infrav1.CapstanMachine) {}
			}
			w := oneWorker(t, c.edit)
			if c.hold {
				edit(w, get(w, "demo", &clusterv1.Cluster{}),
					func(c *clusterv1.Cluster) { c.Annotations = map[string]string{"hold": "x"} })
			}
			for range 10 {
				w.pass()
				w.core()
				w.agents()
				w.clock.SetTime(w.clock.Now().Add(1e9))
			}
			m := w.machine("w1")
			if got := slices.Contains(m.Finalizers, infrav1.MachineFinalizer); got != c.finalizer {
				t.Errorf("the machine has our finalizer: %t", got)
			}
			w.readyIs(m, c.ready)
			w.touchesNoHost()

			// T-IM-12: a machine that waits can be deleted (IM-46).
			w.must(w.api.Delete(t.Context(), m))
			for range 3 {
				w.pass()
			}
			if w.exists("w1", &infrav1.CapstanMachine{}) {
				t.Error("a machine that waits can't be deleted (IM-46)")
			}
			t.Attr("rule", "IM-46 v1beta2")
			w.touchesNoHost()
		})
	}
}

func TestMachineIsLeftAloneOnceProvisioned(t *testing.T) { // T-IM-06: IM-63
	w := oneWorker(t)
	w.settle()
	m := w.machine("w1")
	w.changes()
	for n := range 5 {
		edit(w, w.machine("w1"), func(m *infrav1.CapstanMachine) {
			m.Annotations = map[string]string{"touched": fmt.Sprint(n)}
		})
		w.settle()
	}
	if log := w.changes(); len(log) != 0 {
		t.Errorf("touching a provisioned machine led to %v", log)
	}
	w.restart()
	w.settle()
	for _, call := range w.changes() {
		if !strings.HasPrefix(call, "apply") && !strings.HasPrefix(call, "power on") &&
			!strings.HasPrefix(call, "set backends") && call != "create token" {
			t.Errorf("a restart led to %s", call)
		}
	}
	if after := w.machine("w1"); after.Spec.ProviderID != m.Spec.ProviderID {
		t.Errorf("provider id was %s, is %s", m.Spec.ProviderID, after.Spec.ProviderID)
	}
}

func TestMoveRebuildsTheStatus(t *testing.T) {
	w := oneWorker(t)
	w.settle()
	before, infra, owner := w.machine("w1"), w.capstanCluster("demo-infra"), w.host(w.machine("w1").Status.Host)

	// The target of the move has the same objects with new uids and without status. The hosts keep running.
	there := newWorld(t, get(w, "demo", &clusterv1.Cluster{}), get(w, "w1", &clusterv1.Machine{}))
	there.running, there.backends, there.journal, there.moved = w.running, w.backends, w.journal, true
	move := func(o client.Object) client.Object {
		o.SetUID(uid("moved " + o.GetName()))
		o.SetResourceVersion("")
		o.SetFinalizers(nil)
		return o
	}
	m, c := before.DeepCopy(), infra.DeepCopy()
	m.Status, c.Status = infrav1.CapstanMachineStatus{}, infrav1.CapstanClusterStatus{}
	there.must(there.api.Create(t.Context(), move(m)))
	there.must(there.api.Create(t.Context(), move(c)))
	for _, h := range w.allHosts() {
		h.Status = infrav1.CapstanHostStatus{}
		there.must(there.api.Create(t.Context(), move(&h)))
	}
	there.settle()

	after := there.machine("w1")
	if after.Spec.ProviderID != before.Spec.ProviderID || !ptr.Deref(after.Status.Initialization.Provisioned, false) ||
		!slices.Equal(after.Status.Addresses, before.Status.Addresses) || after.Status.Host != before.Status.Host {
		t.Errorf("before the move %+v\nafter it        %+v", before.Status, after.Status)
	}
	there.readyIs(after, "True Ready")
	if got := there.capstanCluster("demo-infra"); got.Spec.ControlPlaneEndpoint != infra.Spec.ControlPlaneEndpoint {
		t.Errorf("the endpoint was %v, is %v", infra.Spec.ControlPlaneEndpoint, got.Spec.ControlPlaneEndpoint)
	}
	if claim := there.host(owner.Name).Spec.Claim; claim == nil || !reflect.DeepEqual(claim, owner.Spec.Claim) {
		t.Errorf("the claim was %+v, is %+v", owner.Spec.Claim, claim)
	}
	for _, call := range there.changes() {
		if strings.HasPrefix(call, "destroy") || call == "delete balancer" {
			t.Errorf("a move led to %s", call)
		}
	}
}

// TestAnotherMachinesProviderIDReleasesNothing covers an attack: anybody who may create a CapstanMachine can give it
// another machine's provider id, and delete it again.
func TestAnotherMachinesProviderIDReleasesNothing(t *testing.T) {
	w := oneWorker(t)
	w.settle()
	before := w.machine("w1")
	thief := func(_ *clusterv1.Machine, c *infrav1.CapstanMachine) { c.Spec.ProviderID = before.Spec.ProviderID }
	for _, o := range member("thief", false, thief) {
		w.must(w.api.Create(t.Context(), o))
	}
	w.changes()
	w.settle()
	if m := w.machine("thief"); m.Status.Host != "" || ptr.Deref(m.Status.Initialization.Provisioned, false) {
		t.Errorf("the thief has the host of another machine: %+v", m.Status)
	}
	w.must(w.api.Delete(t.Context(), w.machine("thief")))
	w.settle()
	for _, call := range w.changes() {
		if strings.HasSuffix(call, "CapstanHost") || strings.HasPrefix(call, "destroy") {
			t.Errorf("the thief led to %s", call)
		}
	}
	if w.exists("thief", &infrav1.CapstanMachine{}) {
		t.Error("the thief can't be deleted")
	}
	after := w.machine("w1")
	w.readyIs(after, "True Ready")
	c := w.host(after.Status.Host).Spec.Claim
	if after.Status.Host != before.Status.Host || c == nil || c.Machine != "w1" || c.Released ||
		!w.running[after.Status.Host] {
		t.Errorf("w1 was on host %s, is on %s; its claim is %+v", before.Status.Host, after.Status.Host, c)
	}
}

func TestBootstrapFailureIsFinal(t *testing.T) { // T-IM-09 of contract v1beta2: IM-50
	w := oneWorker(t)
	w.fails["host-01"] = "exit code 1"
	w.settle()
	m := w.machine("w1")
	w.readyIs(m, "False BootstrapFailed")
	if m.Spec.ProviderID != "" || ptr.Deref(m.Status.Initialization.Provisioned, false) {
		t.Errorf("a failed machine has an instance: %+v", m)
	}
	w.changes()
	edit(w, m, func(m *infrav1.CapstanMachine) { m.Annotations = map[string]string{"touched": "x"} })
	w.settle()
	if log := w.changes(); len(log) != 0 {
		t.Errorf("touching a failed machine led to %v", log)
	}
	w.must(w.api.Delete(t.Context(), w.machine("w1")))
	w.settle()
	if w.exists("w1", &infrav1.CapstanMachine{}) || len(w.running) != 0 {
		t.Error("a failed machine can't be deleted")
	}
}

func TestDeletionWithoutOwnerWaitsForNothing(t *testing.T) { // T-IM-13: IM-62, D-09
	w := oneWorker(t)
	w.settle()
	edit(w, w.machine("w1"), func(m *infrav1.CapstanMachine) { m.OwnerReferences = nil })
	w.must(w.api.Delete(t.Context(), w.machine("w1")))
	w.changes()
	for _, m := range w.allMachines() {
		if _, err := w.machines.Reconcile(t.Context(), requestOf(&m)); err != nil {
			t.Fatal(err)
		}
	}
	if w.exists("w1", &infrav1.CapstanMachine{}) {
		t.Fatal("the machine is left")
	}
	if log := w.changes(); len(log) != 2 {
		t.Errorf("calls %v, want only two: the claim is marked as released, and the finalizer is removed", log)
	}
	w.settle()
	w.touchesNoHost()
}

func TestDeletionKeepsTheObjectUntilTheHostIsClean(t *testing.T) { // T-IM-10, T-IM-11: IM-57, IM-59, IM-60
	w := newWorld(t, join(hosts(1, ""), demo(infrav1.LoadBalancerLocal), member("w1", false))...)
	w.stuck["host-01"] = []string{"mount /var/lib/kubelet"}
	w.settle()
	w.must(w.api.Delete(t.Context(), w.machine("w1")))
	w.settle()
	m := w.machine("w1")
	w.readyIs(m, "False Deleting")
	if got := conditions.GetMessage(m, infrav1.ReadyCondition); !strings.Contains(got, "mount /var/lib/kubelet") {
		t.Errorf("the message doesn't name the leftover: %s", got)
	}
	if h := w.host("host-01"); h.Status.Phase != infrav1.HostQuarantined || h.Spec.Claim == nil {
		t.Errorf("the host is %s with claim %v", h.Status.Phase, h.Spec.Claim)
	}
	delete(w.stuck, "host-01")
	w.settle()
	if w.exists("w1", &infrav1.CapstanMachine{}) || w.host("host-01").Status.Phase != infrav1.HostAvailable {
		t.Errorf("after cleaning by hand the host is %+v", w.host("host-01").Status)
	}
}

func TestPause(t *testing.T) { // T-IM-14, T-IC-11: IM-64, IM-65, IC-42, IC-43, D-39
	annotate := func(value string) func(*world) {
		return func(w *world) {
			edit(w, w.machine("w1"), func(m *infrav1.CapstanMachine) {
				m.Annotations = map[string]string{clusterv1.PausedAnnotation: value}
			})
			edit(w, w.capstanCluster("demo-infra"), func(c *infrav1.CapstanCluster) {
				c.Annotations = map[string]string{clusterv1.PausedAnnotation: value}
			})
		}
	}
	for name, pause := range map[string]func(*world){
		"by the Cluster": func(w *world) {
			edit(w, get(w, "demo", &clusterv1.Cluster{}), func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(true) })
		},
		"by an empty annotation":      annotate(""),
		"by an annotation with false": annotate("false"),
	} {
		t.Run(name, func(t *testing.T) {
			w := oneWorker(t)
			pause(w)
			w.settle()
			w.touchesNoHost()
			m, c := w.machine("w1"), w.capstanCluster("demo-infra")
			for _, o := range []interface {
				conditions.Getter
				client.Object
			}{m, c} {
				if !conditions.IsTrue(o, clusterv1.PausedCondition) || len(o.GetConditions()) != 1 || len(o.GetFinalizers()) != 0 {
					t.Errorf("%T has more than condition Paused: finalizers %v, conditions %+v", o,
						o.GetFinalizers(), o.GetConditions())
				}
			}
			edit(w, get(w, "demo", &clusterv1.Cluster{}), func(c *clusterv1.Cluster) { c.Spec.Paused = nil })
			edit(w, w.machine("w1"), func(m *infrav1.CapstanMachine) { m.Annotations = nil })
			edit(w, w.capstanCluster("demo-infra"), func(c *infrav1.CapstanCluster) { c.Annotations = nil })
			w.settle()
			w.readyIs(w.machine("w1"), "True Ready")
			if !conditions.IsFalse(w.machine("w1"), clusterv1.PausedCondition) ||
				!conditions.IsFalse(w.capstanCluster("demo-infra"), clusterv1.PausedCondition) {
				t.Error("Paused is not False after the pause")
			}

			pause(w)
			w.must(w.api.Delete(t.Context(), w.machine("w1")))
			w.must(w.api.Delete(t.Context(), w.capstanCluster("demo-infra")))
			w.settle()
			if !w.exists("w1", &infrav1.CapstanMachine{}) || len(w.running) != 1 || w.backends["demo"] == nil {
				t.Error("something was deleted during the pause")
			}
		})
	}
}

func TestMachineIsPlacedInItsFailureDomain(t *testing.T) { // T-IM-17: IM-17, IM-18, IM-55
	w := oneWorker(t, func(m *clusterv1.Machine, _ *infrav1.CapstanMachine) { m.Spec.FailureDomain = "zone-b" })
	w.settle()
	if m := w.machine("w1"); m.Status.Host != "host-02" || m.Status.FailureDomain != "zone-b" {
		t.Errorf("placed on %s in %s", m.Status.Host, m.Status.FailureDomain)
	}
}

func TestWatchFilter(t *testing.T) { // T-IM-19, T-IC-12: IM-66, IC-40
	w := oneWorker(t)
	w.filter = "x"
	w.restart()
	w.settle()
	w.touchesNoHost()
	if len(w.machine("w1").Finalizers)+len(w.capstanCluster("demo-infra").Finalizers)+
		len(w.host("host-01").Finalizers) != 0 {
		t.Error("objects without the label were touched")
	}
	label := map[string]string{clusterv1.WatchLabel: "x", clusterv1.ClusterNameLabel: "demo"}
	edit(w, w.machine("w1"), func(m *infrav1.CapstanMachine) { m.Labels = label })
	edit(w, w.capstanCluster("demo-infra"), func(c *infrav1.CapstanCluster) { c.Labels = label })
	edit(w, w.host("host-02"), func(h *infrav1.CapstanHost) { h.Labels = label })
	w.settle()
	w.readyIs(w.machine("w1"), "True Ready")
	if got := w.machine("w1").Status.Host; got != "host-02" {
		t.Errorf("the machine is on %s, which has no label", got)
	}
}

// TestWritesForAMachine counts the writes for one machine. The benchmark with a real API server is in test/contract.
func TestWritesForAMachine(t *testing.T) {
	w := newWorld(t, join(hosts(3, infrav1.SupplierDock), demo(infrav1.LoadBalancerLocal))...)
	w.settle()
	w.changes()
	for _, o := range member("w1", false) {
		w.must(w.api.Create(t.Context(), o))
	}
	w.settle()
	machine := 0
	for _, call := range w.changes() {
		t.Log(call)
		if strings.HasSuffix(call, "CapstanMachine") || strings.HasSuffix(call, "Secret") ||
			call == "patch v1beta2.CapstanHost" {
			machine++
		}
	}
	if machine > 8 {
		t.Errorf("%d writes to make a machine ready, want at most 8", machine)
	}
}
