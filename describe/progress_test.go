package describe

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capstan-dev/capstan/topology"
)

func TestMeasure(t *testing.T) {
	cluster := func(change ...func(*clusterv1.Cluster)) *clusterv1.Cluster {
		c := topology.Request{Name: "demo", Namespace: "default", ControlPlane: 1, Workers: 1}.Cluster()
		for _, f := range change {
			f(c)
		}
		return c
	}
	refs := func(c *clusterv1.Cluster) {
		c.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "g", Kind: "k", Name: "n"}
	}
	provisioned := func(c *clusterv1.Cluster) {
		c.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "10.0.0.1", Port: 6443}
		c.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	}
	initialized := func(c *clusterv1.Cluster) { c.Status.Initialization.ControlPlaneInitialized = ptr.To(true) }
	blocked := func(c *clusterv1.Cluster) {
		c.Status.Conditions = []metav1.Condition{
			{
				Type:    clusterv1.ClusterTopologyReconciledCondition,
				Status:  metav1.ConditionFalse,
				Message: "cluster needs 6 hosts",
			},
		}
	}
	upgraded := func(c *clusterv1.Cluster) { c.Spec.Topology.Version = "v1.36.3" }
	machine := func(name string, ready bool) clusterv1.Machine {
		m := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name}}
		status := metav1.ConditionFalse
		if ready {
			status = metav1.ConditionTrue
			m.Status.NodeRef = clusterv1.MachineNodeReference{Name: name}
		}
		m.Status.Conditions = []metav1.Condition{
			{Type: clusterv1.MachineNodeReadyCondition, Status: status, Message: "kubelet is starting"},
		}
		return m
	}
	deleting := machine("old", true)
	deleting.DeletionTimestamp = ptr.To(metav1.Now())
	for name, c := range map[string]struct {
		cluster  *clusterv1.Cluster
		machines []clusterv1.Machine
		want     Progress
	}{
		"a blocking hook is waited for first": {cluster(blocked), nil, Progress{StepHooks, "cluster needs 6 hosts"}},
		"the endpoint is waited for second":   {cluster(refs), nil, Progress{StepEndpoint, ""}},
		"the control plane is waited for third": {cluster(refs, provisioned), nil,
			Progress{StepControlPlane, "waiting for machines"}},
		"each Node is waited for last": {
			cluster(refs, provisioned, initialized), []clusterv1.Machine{machine("a", true), machine("b", false)},
			Progress{StepNodes, "1 of 2; b: kubelet is starting"},
		},
		"a machine that is being deleted is waited for, too": {
			cluster(refs, provisioned, initialized), []clusterv1.Machine{machine("a", true), machine("b", true), deleting},
			Progress{StepNodes, "2 of 2; old is being deleted"},
		},
		"a missing machine is waited for": {
			cluster(refs, provisioned, initialized), []clusterv1.Machine{machine("a", true)},
			Progress{StepNodes, "1 of 2; waiting for machines"},
		},
		"a machine of another version is waited for, and the detail says what holds the upgrade back": {
			cluster(refs, provisioned, initialized, blocked, upgraded),
			[]clusterv1.Machine{machine("a", true), machine("b", true)},
			Progress{StepNodes, "0 of 2 machines have v1.36.3; cluster needs 6 hosts"},
		},
		"all Nodes are Ready, and no step is left": {
			cluster(refs, provisioned, initialized), []clusterv1.Machine{machine("a", true), machine("b", true)}, Progress{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Measure(c.cluster, c.machines); got != c.want {
				t.Errorf("Measure = %+v, want %+v", got, c.want)
			}
		})
	}
}
