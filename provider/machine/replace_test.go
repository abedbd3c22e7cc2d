package machine

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/step"
)

func ownedBySet(m *clusterv1.Machine) {
	m.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: "set", UID: "set", Controller: ptr.To(true),
	}}
}

func TestReplaceAMachineThatFailed(t *testing.T) {
	known := machineIs(func(m *infrav1.CapstanMachine) {
		m.Status.Conditions = []metav1.Condition{{
			Type: infrav1.BootstrappedCondition, Status: metav1.ConditionFalse, Reason: infrav1.BootstrapFailedReason,
			LastTransitionTime: metav1.Now(),
		}}
	})
	owned := on("owner", ownedBySet)
	asked := on("owner", func(m *clusterv1.Machine) {
		m.Annotations = map[string]string{clusterv1.RemediateMachineAnnotation: ""}
	})
	going := on("owner", func(m *clusterv1.Machine) {
		m.Finalizers, m.DeletionTimestamp = []string{clusterv1.MachineFinalizer}, ptr.To(metav1.Now())
	})
	for name, c := range map[string]struct {
		edits []change
		asked bool
		calls []string
	}{
		"a MachineSet creates another machine": {edits: []change{known, owned}, asked: true,
			calls: []string{"patch Machine"}},
		"nothing creates another machine":      {edits: []change{known}},
		"the replacement is requested already": {edits: []change{known, owned, asked}, asked: true},
		"the Machine is being deleted":         {edits: []change{known, owned, going}},
		"the failure is new, and a MachineSet creates another machine": {
			edits: []change{owned}, asked: true, calls: []string{"get Secret", "patch Machine"},
		},
		"the failure is new, and nothing creates another machine": {calls: []string{"get Secret"}},
	} {
		t.Run(name, func(t *testing.T) {
			edits := append([]change{claimed("host-01", reported(infrav1.BootstrapFailed))}, c.edits...)
			trial{
				objects: worldOf(edits...), run: (*Reconciler).report, calls: c.calls,
				with: func(f *fixture, s *scope) { s.host = f.host("host-01") },
				check: func(t *testing.T, f *fixture, _ *scope, answer step.Answer) {
					machine := get(f, "w1", &clusterv1.Machine{})
					if !answer.Stopped() || annotations.HasRemediateMachine(machine) != c.asked {
						t.Errorf(
							"stopped %t, annotations %v, want a request: %t",
							answer.Stopped(),
							machine.Annotations,
							c.asked,
						)
					}
				},
			}.do(t)
		})
	}
}

func TestGroupsOfMachines(t *testing.T) {
	machine := func(name string, labels ...string) *clusterv1.Machine {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{}}}
		m.Spec.ClusterName = "demo"
		for i := 0; i < len(labels); i += 2 {
			m.Labels[labels[i]] = labels[i+1]
		}
		ownedBySet(m)
		return m
	}
	deployed := func(name string) *clusterv1.Machine {
		return machine(name, clusterv1.MachineDeploymentNameLabel, "md", clusterv1.MachineSetNameLabel, "md-"+name)
	}
	if groupOf(deployed("a")) != groupOf(deployed("b")) {
		t.Error("machines of two sets of one deployment are in different groups")
	}
	if groupOf(
		machine("a", clusterv1.MachineSetNameLabel, "x"),
	) == groupOf(
		machine("b", clusterv1.MachineSetNameLabel, "y"),
	) {
		t.Error("machines of two sets are in one group")
	}
	cp := machine("a", clusterv1.MachineControlPlaneLabel, "")
	if groupOf(cp) == groupOf(machine("a")) ||
		groupOf(cp) != groupOf(machine("b", clusterv1.MachineControlPlaneLabel, "")) {
		t.Error("the machines of a control plane are not a separate group")
	}
	other := deployed("a")
	other.Namespace = "else"
	if groupOf(other) == groupOf(deployed("a")) {
		t.Error("machines of two namespaces are in one group")
	}
}

func TestReplacementsSlowDown(t *testing.T) {
	now, g := time.Unix(1_000_000, 0), group{name: "md"}
	var p replacing
	var pauses []time.Duration
	for i := range 9 {
		uid := types.UID(fmt.Sprint(i))
		wait := p.ask(g, uid, now)
		pauses = append(pauses, wait)
		now = now.Add(wait)
		for range 2 {
			if p.ask(g, uid, now) != 0 {
				t.Fatalf("machine %d may not be replaced after its wait, or not again after a failed write", i)
			}
		}
	}
	want := "[0s 10s 20s 40s 1m20s 2m40s 5m20s 10m0s 10m0s]"
	if got := fmt.Sprint(pauses); got != want {
		t.Errorf("pauses %s, want %s", got, want)
	}
	if wait := p.ask(group{name: "other"}, "x", now); wait != 0 {
		t.Errorf("another group waits %s", wait)
	}
	p.succeeded(g)
	if wait := p.ask(g, "after", now); wait != 0 {
		t.Errorf("after a success, the group waits %s", wait)
	}
	if p.ask(group{name: "late"}, "x", now.Add(time.Hour)); len(p.groups) != 1 {
		t.Errorf("replacements of long ago are still recorded: %v", p.groups)
	}
}
