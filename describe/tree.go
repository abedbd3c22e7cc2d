package describe

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/text"
)

// Node is one object in a tree. Empty fields are unknown or do not matter.
type Node struct {
	// Name names the object, such as Machine/demo-1.
	Name string
	// Replicas counts the replicas of the object.
	Replicas Replicas
	// State, Reason and Message come from the condition that sums up the object. Since is the time of its last
	// transition.
	State, Reason, Message string
	Since                  time.Time
	// Conditions are further conditions of the object that the user asked for.
	Conditions []metav1.Condition
	Children   []*Node
}

// Replicas are counts as text, which allows values such as "3/5".
type Replicas struct {
	All, Available, Ready, UpToDate string
}

// Tree returns the tree of a cluster, from the Cluster to the hosts.
func Tree(o Objects) *Node {
	root := nodeOf("Cluster/"+o.Cluster.Name, o.Cluster.Status.Conditions, clusterv1.ClusterAvailableCondition)
	for _, kind := range []string{
		clusterv1.ClusterTopologyReconciledCondition, clusterv1.ClusterRemoteConnectionProbeCondition,
	} {
		if notTrue(o.Cluster.Status.Conditions, kind) != nil {
			root.Children = append(root.Children, nodeOf(kind, o.Cluster.Status.Conditions, kind))
		}
	}
	if o.Infra != nil {
		n := nodeOf("CapstanCluster/"+o.Infra.Name, o.Infra.Status.Conditions, infrav1.ReadyCondition)
		if e := o.Infra.Spec.ControlPlaneEndpoint; !e.IsZero() && n.Message == "" {
			n.Message = fmt.Sprintf("endpoint %s:%d", e.Host, e.Port)
		}
		root.Children = append(root.Children, n)
	}
	if o.ControlPlane != nil {
		n := nodeOf("KubeadmControlPlane/"+o.ControlPlane.Name, o.ControlPlane.Status.Conditions,
			controlplanev1.KubeadmControlPlaneAvailableCondition)
		n.Children = machineNodes(o, func(m *clusterv1.Machine) bool {
			_, yes := m.Labels[clusterv1.MachineControlPlaneLabel]
			return yes
		})
		root.Children = append(root.Children, n)
	}
	for i := range o.Deployments {
		md := &o.Deployments[i]
		n := nodeOf("MachineDeployment/"+md.Name, md.Status.Conditions, clusterv1.MachineDeploymentAvailableCondition)
		n.Children = machineNodes(o, func(m *clusterv1.Machine) bool {
			return m.Labels[clusterv1.MachineDeploymentNameLabel] == md.Name
		})
		root.Children = append(root.Children, n)
	}
	return root
}

func machineNodes(o Objects, belongs func(*clusterv1.Machine) bool) []*Node {
	var nodes []*Node
	for i := range o.Machines {
		m := &o.Machines[i]
		if !belongs(m) {
			continue
		}
		n := nodeOf("Machine/"+m.Name, m.Status.Conditions, clusterv1.MachineReadyCondition)
		if !m.DeletionTimestamp.IsZero() {
			n.State, n.Reason = "False", "Deleting"
			n.Message = messageOf(m.Status.Conditions, clusterv1.MachineDeletingCondition)
		} else if n.State == "True" && n.Message == "" {
			n.Message = m.Spec.Version
		}
		if im := o.InfraMachines[m.Spec.InfrastructureRef.Name]; im != nil && n.State != "True" {
			infra := nodeOf("CapstanMachine/"+im.Name, im.Status.Conditions, infrav1.ReadyCondition)
			n.Children = append(n.Children, infra)
		}
		if h := o.Hosts[m.Spec.InfrastructureRef.Name]; h != nil {
			host := nodeOf("CapstanHost/"+h.Name, h.Status.Conditions, infrav1.ReadyCondition)
			host.Reason = string(h.Status.Phase)
			if host.State == "True" {
				host.Message = "zone " + h.Spec.Zone
				if a := addressOf(h); a != "" {
					host.Message += ", address " + a
				}
			}
			n.Children = append(n.Children, host)
		}
		nodes = append(nodes, n)
	}
	slices.SortFunc(nodes, func(a, b *Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes
}

// addressOf returns the address that a host's agent reported. It validates the address, because the agent may write
// anything.
func addressOf(host *infrav1.CapstanHost) string {
	if host.Status.Agent == nil {
		return ""
	}
	a, err := netip.ParseAddr(host.Status.Agent.Address)
	if err != nil || a.Zone() != "" {
		return ""
	}
	return a.String()
}

func nodeOf(name string, conditions []metav1.Condition, kind string) *Node {
	n := &Node{Name: name, State: "Unknown"}
	if c := meta.FindStatusCondition(conditions, kind); c != nil {
		n.State, n.Reason = string(c.Status), c.Reason
		if c.Status != metav1.ConditionTrue {
			n.Message = text.OneLine(c.Message, 120)
		}
	}
	return n
}

// notTrue returns the condition if it exists and is not True, else nil.
func notTrue(conditions []metav1.Condition, kind string) *metav1.Condition {
	if c := meta.FindStatusCondition(conditions, kind); c != nil && c.Status != metav1.ConditionTrue {
		return c
	}
	return nil
}
