package describe

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

func TestTree(t *testing.T) {
	is := func(kind string, status metav1.ConditionStatus, reason, message string) []metav1.Condition {
		return []metav1.Condition{{Type: kind, Status: status, Reason: reason, Message: message}}
	}
	cp := clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Name:   "demo-cp-1",
			Labels: map[string]string{clusterv1.MachineControlPlaneLabel: ""},
		},
	}
	cp.Spec.Version, cp.Spec.InfrastructureRef.Name = "v1.36.3", "demo-cp-1"
	cp.Status.Conditions = is("Ready", metav1.ConditionTrue, "Ready", "")
	worker := clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Name:   "demo-md-1",
			Labels: map[string]string{clusterv1.MachineDeploymentNameLabel: "demo-md"},
		},
	}
	worker.Spec.InfrastructureRef.Name = "demo-md-1"
	worker.Status.Conditions = is("Ready", metav1.ConditionFalse, "NotReady", "* InfrastructureReady:\n  waits")
	host := &infrav1.CapstanHost{
		ObjectMeta: metav1.ObjectMeta{Name: "host-01"},
		Spec:       infrav1.CapstanHostSpec{Zone: "zone-a"},
	}
	host.Status.Phase, host.Status.Conditions = infrav1.HostInUse, is("Ready", metav1.ConditionTrue, "InUse", "")
	host.Status.Agent = &infrav1.AgentReport{Address: "10.231.1.2"}
	machine := &infrav1.CapstanMachine{ObjectMeta: metav1.ObjectMeta{Name: "demo-md-1"}}
	machine.Status.Conditions = is("Ready", metav1.ConditionFalse, "NoHostMatches", "0 of 4 hosts fit: 4 claimed")
	o := Objects{
		Cluster: &clusterv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Name: "demo"},
			Status: clusterv1.ClusterStatus{
				Conditions: is("Available", metav1.ConditionFalse, "NotAvailable", "workers"),
			},
		},
		ControlPlane: &controlplanev1.KubeadmControlPlane{
			ObjectMeta: metav1.ObjectMeta{Name: "demo-cp"},
			Status: controlplanev1.KubeadmControlPlaneStatus{
				Conditions: is("Available", metav1.ConditionTrue, "Available", ""),
			},
		},
		Deployments:   []clusterv1.MachineDeployment{{ObjectMeta: metav1.ObjectMeta{Name: "demo-md"}}},
		Machines:      []clusterv1.Machine{cp, worker},
		InfraMachines: map[string]*infrav1.CapstanMachine{"demo-md-1": machine},
		Hosts:         map[string]*infrav1.CapstanHost{"demo-cp-1": host},
	}
	var out strings.Builder
	if err := Write(&out, Tree(o)); err != nil {
		t.Fatal(err)
	}
	want := `NAME                              READY    REASON         MESSAGE
Cluster/demo                      False    NotAvailable   workers
├─KubeadmControlPlane/demo-cp     True     Available
│ └─Machine/demo-cp-1             True     Ready          v1.36.3
│   └─CapstanHost/host-01         True     InUse          zone zone-a, address 10.231.1.2
└─MachineDeployment/demo-md       Unknown
  └─Machine/demo-md-1             False    NotReady       * InfrastructureReady: waits
    └─CapstanMachine/demo-md-1    False    NoHostMatches  0 of 4 hosts fit: 4 claimed
`
	if normal(out.String()) != normal(want) {
		t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
	}
}

// normal collapses runs of spaces except at the start of a line: the test is about content and branches, not column
// widths.
func normal(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = strings.Join(strings.Fields(l), " ")
	}
	return strings.Join(lines, "\n")
}
