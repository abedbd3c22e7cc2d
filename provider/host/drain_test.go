package host

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/step"
)

// member returns a control plane Machine that has a Node.
func member(name string, edits ...func(*clusterv1.Machine)) clusterv1.Machine {
	m := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name), Labels: map[string]string{clusterv1.MachineControlPlaneLabel: ""},
	}}
	m.Spec.ClusterName = "demo"
	m.Status.NodeRef.Name = name
	for _, e := range edits {
		e(&m)
	}
	return m
}

func TestMayGo(t *testing.T) {
	deleted := func(m *clusterv1.Machine) {
		now := metav1.Now()
		m.DeletionTimestamp = &now
		m.Status.Conditions = []metav1.Condition{{
			Type: clusterv1.DeletingCondition, Status: metav1.ConditionTrue, Message: "Drain not completed yet: Pod a/b",
		}}
	}
	noNode := func(m *clusterv1.Machine) { m.Status.NodeRef.Name = "" }
	sick := func(m *clusterv1.Machine) {
		m.Status.Conditions = []metav1.Condition{{Type: "EtcdMemberHealthy", Status: metav1.ConditionFalse}}
	}
	well := func(m *clusterv1.Machine) {
		m.Status.Conditions = []metav1.Condition{{Type: "EtcdMemberHealthy", Status: metav1.ConditionTrue}}
	}
	worker := func(m *clusterv1.Machine) { m.Labels = nil }
	for name, c := range map[string]struct {
		machine clusterv1.Machine
		paused  bool
		others  []clusterv1.Machine
		reason  string // empty: the Machine may be deleted
		message string
	}{
		"a worker": {machine: member("w", worker)},
		"a worker that is paused": {machine: member("w", worker), paused: true,
			reason: "WaitingForMachine", message: "is paused"},
		"a worker that is being deleted": {machine: member("w", worker, deleted),
			reason: "WaitingForMachine", message: "Pod a/b"},
		"the only control plane": {machine: member("a"),
			reason: "ControlPlaneAtRisk", message: "the only control plane machine"},
		"one of two members": {machine: member("a"), others: []clusterv1.Machine{member("b", well)}},
		"one of two members, the other one is sick": {machine: member("a"),
			others: []clusterv1.Machine{member("b", sick)},
			reason: "ControlPlaneAtRisk", message: "0 of the 1"},
		"a sick member of three": {machine: member("a", sick), others: []clusterv1.Machine{member("b"), member("c")}},
		"one of three members, another one starts": {machine: member("a"),
			others: []clusterv1.Machine{member("b"), member("c", noNode)},
			reason: "ControlPlaneAtRisk", message: "1 of the 2"},
		"one of four members, another one is sick": {
			machine: member("a"), others: []clusterv1.Machine{member("b"), member("c"), member("d", sick)},
		},
		"one of three members, another one is being deleted": {machine: member("a"),
			others: []clusterv1.Machine{member("b"), member("c", deleted)},
			reason: "ControlPlaneAtRisk", message: "one at a time"},
		"a member that is being deleted": {machine: member("a", deleted),
			reason: "WaitingForMachine", message: "Machine a is being deleted: Drain"},
	} {
		t.Run(name, func(t *testing.T) {
			got := mayGo(&c.machine, c.paused, append(c.others, c.machine))
			if (got == nil) != (c.reason == "") {
				t.Fatalf("got %+v", got)
			}
			if got != nil && (got.Reason != c.reason || !strings.Contains(got.Message, c.message)) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestDrained(t *testing.T) {
	held := &infrav1.HostClaim{Machine: "m", ProviderID: "p"}
	released := &infrav1.HostClaim{Machine: "m", ProviderID: "p", Released: true}
	for name, c := range map[string]struct {
		maintenance string
		plain       bool // neither drain nor maintenance
		claim       *infrav1.HostClaim
		live        liveness
		waits       *step.Obstacle

		drained string // status and reason; empty: absent
		phase   infrav1.HostPhase
		ready   string
	}{
		"neither drain nor maintenance": {plain: true, live: alive, phase: infrav1.HostAvailable, ready: "True Ready"},
		"drain, and no machine has the host": {live: alive,
			drained: "True Drained", phase: infrav1.HostAvailable, ready: "True Ready"},
		"maintenance, and no machine has the host": {maintenance: "new disks", live: alive,
			drained: "True InMaintenance", phase: infrav1.HostMaintenance, ready: "False InMaintenance"},
		"maintenance, and the host is off": {maintenance: "new disks", live: silent,
			drained: "True InMaintenance", phase: infrav1.HostMaintenance, ready: "False InMaintenance"},
		"drain, and the machine is being deleted": {claim: held, live: alive, waits: waitForMachine("x"),
			drained: "False WaitingForMachine", phase: infrav1.HostClaimed, ready: "False HostStarting"},
		"drain, and the machine is the last control plane machine": {claim: held, live: alive, waits: atRisk("x"),
			drained: "False ControlPlaneAtRisk", phase: infrav1.HostClaimed, ready: "False HostStarting"},
		"maintenance, and no pass has checked the machine yet": {maintenance: "x", claim: held, live: alive,
			drained: "False WaitingForMachine", phase: infrav1.HostClaimed, ready: "False HostStarting"},
		"maintenance, and the host is being cleaned": {maintenance: "x", claim: released, live: alive,
			drained: "False Cleaning", phase: infrav1.HostCleaning, ready: "False Cleaning"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &infrav1.CapstanHost{}
			h.Spec.Claim, h.Spec.Maintenance, h.Spec.Drain = c.claim, c.maintenance, !c.plain && c.maintenance == ""
			h.Status.Agent = &infrav1.AgentReport{Epoch: &h.Spec.Epoch}
			setStatus(h, facts{live: c.live, drain: c.waits})
			got := map[string]string{}
			for _, one := range h.Status.Conditions {
				got[one.Type] = string(one.Status) + " " + one.Reason
			}
			if got[infrav1.DrainedCondition] != c.drained || h.Status.Phase != c.phase ||
				got[infrav1.ReadyCondition] != c.ready {
				t.Errorf("phase %s, %v", h.Status.Phase, got)
			}
			h.Spec.Drain, h.Spec.Maintenance = false, ""
			if setStatus(h, facts{live: c.live}); len(h.Status.Conditions) != 3 {
				t.Errorf("after drain or maintenance has ended, the conditions are %+v", h.Status.Conditions)
			}
		})
	}
}
