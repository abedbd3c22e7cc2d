package restore

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestAControlPlaneIsWholeAgain(t *testing.T) {
	machine := func(uid string, controlPlane, ready bool) clusterv1.Machine {
		m := clusterv1.Machine{}
		m.UID, m.Name = types.UID(uid), uid
		if controlPlane {
			m.Labels = map[string]string{clusterv1.MachineControlPlaneLabel: ""}
		}
		status := metav1.ConditionFalse
		if ready {
			status = metav1.ConditionTrue
		}
		m.Status.Conditions = []metav1.Condition{
			{Type: clusterv1.MachineNodeReadyCondition, Status: status, Message: "Node is not there"},
		}
		return m
	}
	left := map[types.UID]bool{"old-1": true, "old-2": true}
	for name, c := range map[string]struct {
		machines []clusterv1.Machine
		want     string
	}{
		"a deleted machine is still there, although enough are ready": {
			[]clusterv1.Machine{machine("a", true, true), machine("b", true, true), machine("c", true, true),
				machine("old-2", true, true)}, "old-2 is being deleted"},
		"the deleted machines are gone, and none is new yet": {
			[]clusterv1.Machine{machine("a", true, true)}, "1 of 3; waiting for machines",
		},
		"a machine is not ready": {
			[]clusterv1.Machine{machine("a", true, true), machine("b", true, true), machine("c", true, false)},
			"2 of 3; c: Node is not there",
		},
		"workers do not count": {
			[]clusterv1.Machine{machine("a", true, true), machine("b", true, true), machine("w", false, true)},
			"2 of 3; waiting for machines",
		},
		"a whole control plane, and a worker that is not ready": {
			[]clusterv1.Machine{machine("a", true, true), machine("b", true, true), machine("c", true, true),
				machine("w", false, false)}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := missing(c.machines, left, 3); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestIncomplete(t *testing.T) {
	now := metav1.Now()
	machine := func(controlPlane, node, leaving bool) clusterv1.Machine {
		m := clusterv1.Machine{}
		if controlPlane {
			m.Labels = map[string]string{clusterv1.MachineControlPlaneLabel: ""}
		}
		if node {
			m.Status.NodeRef.Name = "n"
		}
		if leaving {
			m.DeletionTimestamp = &now
		}
		return m
	}
	for name, c := range map[string]struct {
		machines []clusterv1.Machine
		want     bool
	}{
		"all machines are there": {[]clusterv1.Machine{machine(true, true, false), machine(false, false, true)}, false},
		"a machine is created":   {[]clusterv1.Machine{machine(true, true, false), machine(true, false, false)}, true},
		"a machine is deleted":   {[]clusterv1.Machine{machine(true, true, true)}, true},
	} {
		if got := incomplete(c.machines); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
