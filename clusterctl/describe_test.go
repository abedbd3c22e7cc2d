package clusterctl

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/tree"

	"github.com/capstan-dev/capstan/describe"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func is(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message,
		LastTransitionTime: metav1.NewTime(now.Add(-time.Minute)),
	}
}

func machine(name string, conditions ...metav1.Condition) *clusterv1.Machine {
	m := &clusterv1.Machine{Status: clusterv1.MachineStatus{Conditions: conditions}}
	m.Name, m.UID = name, types.UID(name)
	m.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Machine"))
	return m
}

// example is a cluster with a control plane, one of whose machines is ready, and three identical workers.
func example(o tree.ObjectTreeOptions) *tree.ObjectTree {
	n := func(i int32) *int32 { return &i }
	cluster := &clusterv1.Cluster{}
	cluster.Name, cluster.UID = "blue", "cluster"
	cluster.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Cluster"))
	cluster.Status.Conditions = []metav1.Condition{
		is(clusterv1.AvailableCondition, metav1.ConditionFalse, "NotAvailable",
			"* ControlPlaneAvailable: one of 2\n* WorkersAvailable: none"),
		is(clusterv1.PausedCondition, metav1.ConditionFalse, "NotPaused", ""),
	}
	cluster.Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{
		DesiredReplicas: n(2), Replicas: n(2), AvailableReplicas: n(1), ReadyReplicas: n(1), UpToDateReplicas: n(2),
	}
	cluster.Status.Workers = &clusterv1.WorkersStatus{
		DesiredReplicas: n(3), Replicas: n(3), AvailableReplicas: n(0), ReadyReplicas: n(0), UpToDateReplicas: n(3),
	}
	t := tree.NewObjectTree(cluster, o)
	controlPlane := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
		"metadata": map[string]any{"name": "blue-cp", "uid": "cp"},
		"spec":     map[string]any{"replicas": int64(2)},
		"status":   map[string]any{"replicas": int64(2), "readyReplicas": int64(1)},
	}}
	t.Add(cluster, controlPlane, tree.ObjectMetaName("ControlPlane"), tree.GroupingObject(true), tree.ZOrder(1))
	t.Add(controlPlane, machine("cp-a", is("Ready", metav1.ConditionTrue, "Ready", ""),
		is("Available", metav1.ConditionTrue, "Available", ""), is("UpToDate", metav1.ConditionTrue, "UpToDate", "")))
	t.Add(controlPlane, machine("cp-b", is("Ready", metav1.ConditionFalse, "NotReady", "* BootstrapConfigReady: waits")))
	workers := tree.VirtualObject("", "WorkerGroup", "Workers")
	t.Add(cluster, workers)
	deployment := &clusterv1.MachineDeployment{}
	deployment.Name, deployment.UID = "md-0", "md"
	deployment.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("MachineDeployment"))
	deployment.Spec.Replicas = n(3)
	deployment.Status.Replicas = n(3)
	deployment.DeletionTimestamp = &metav1.Time{Time: now}
	t.Add(workers, deployment, tree.GroupingObject(true))
	for i := range 4 {
		t.Add(deployment, machine(fmt.Sprint("w-", i), is("Ready", metav1.ConditionFalse, "NotReady", "")))
	}
	return t
}

func TestTree(t *testing.T) {
	for name, c := range map[string]struct {
		options tree.ObjectTreeOptions
		want    string
	}{
		"identical machines are one line": {tree.ObjectTreeOptions{Grouping: true}, `
NAME                                       REPLICAS  AVAILABLE  READY  UP TO DATE  STATUS            REASON        SINCE  MESSAGE
Cluster/blue                               5/5       1          1      5           Available: False  NotAvailable  60s    * ControlPlaneAvailable: one of 2
│                                                                                                                         * WorkersAvailable: none
├─ControlPlane - KubeadmControlPlane/blue-cp  2/2                  1
│ ├─Machine/cp-a                           1         1          1      1           Available: True   Available     60s
│ └─Machine/cp-b                           1         0          0      0           Ready: False      NotReady      60s    * BootstrapConfigReady: waits
└─Workers
  └─MachineDeployment/md-0 (being deleted)  3/3
    └─4 Machines...                        4         0          0      0           Ready: False      NotReady      60s    See w-0, w-1, w-2, ...`},
		"conditions that report problems": {tree.ObjectTreeOptions{Grouping: true, ShowOtherConditions: "Cluster+"}, `
NAME                                       REPLICAS  AVAILABLE  READY  UP TO DATE  STATUS            REASON        SINCE  MESSAGE
Cluster/blue                               5/5       1          1      5
│  Available                                                                        False            NotAvailable  60s    * ControlPlaneAvailable: one of 2
│                                                                                                                         * WorkersAvailable: none
├─ControlPlane`},
	} {
		t.Run(name, func(t *testing.T) {
			var got strings.Builder
			if err := describe.WriteWide(&got, Tree(example(c.options)), now); err != nil {
				t.Fatal(err)
			}
			// The width of columns depends on their content, so compare only the words.
			words := func(s string) string {
				lines := strings.Split(strings.TrimSpace(s), "\n")
				for i := range lines {
					lines[i] = strings.Join(strings.Fields(lines[i]), " ")
				}
				return strings.Join(lines, "\n")
			}
			if !strings.HasPrefix(words(got.String()), words(c.want)) {
				t.Errorf("got\n%s", got.String())
			}
		})
	}
}

// TestConditionsThatAreShown: "all" also shows conditions that are as expected.
func TestConditionsThatAreShown(t *testing.T) {
	for filter, want := range map[string]int{"": 0, "all": 2, "Cluster": 2, "Cluster+": 1, "Machine": 0} {
		o := example(tree.ObjectTreeOptions{ShowOtherConditions: filter})
		root := o.GetRoot()
		root.SetAnnotations(nil)
		again := tree.NewObjectTree(root, tree.ObjectTreeOptions{ShowOtherConditions: filter})
		if got := conditionsOf(again.GetRoot()); len(got) != want {
			t.Errorf("%q shows %d conditions, want %d: %v", filter, len(got), want, got)
		}
	}
}
