package main

import (
	"fmt"
	"io"
	"sort"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// clusterObjects are the objects that a cluster is made of.
type clusterObjects struct {
	Cluster       *clusterv1.Cluster                  `json:"cluster"`
	Infra         *infrav1.CapstanCluster             `json:"infrastructure,omitempty"`
	ControlPlane  *controlplanev1.KubeadmControlPlane `json:"controlPlane,omitempty"`
	Deployments   []clusterv1.MachineDeployment       `json:"machineDeployments,omitempty"`
	Machines      []clusterv1.Machine                 `json:"machines,omitempty"`
	InfraMachines map[string]*infrav1.CapstanMachine  `json:"-"`
	Hosts         map[string]*infrav1.CapstanHost     `json:"-"` // by the name of the CapstanMachine that claims it
}

// node is one line of the tree.
type node struct {
	name     string
	state    string // True, False, Unknown or a phase
	reason   string
	message  string
	children []*node
}

// treeOf builds the tree of a cluster. Pure.
func treeOf(o clusterObjects) *node {
	root := nodeOf("Cluster/"+o.Cluster.Name, o.Cluster.Status.Conditions, clusterv1.ClusterAvailableCondition)
	for _, kind := range []string{clusterv1.ClusterTopologyReconciledCondition, clusterv1.ClusterRemoteConnectionProbeCondition} {
		if c := condition(o.Cluster.Status.Conditions, kind); c != nil && c.Status != metav1.ConditionTrue {
			root.children = append(root.children, nodeOf(kind, o.Cluster.Status.Conditions, kind))
		}
	}
	if o.Infra != nil {
		n := nodeOf("CapstanCluster/"+o.Infra.Name, o.Infra.Status.Conditions, infrav1.ReadyCondition)
		if e := o.Infra.Spec.ControlPlaneEndpoint; !e.IsZero() && n.message == "" {
			n.message = fmt.Sprintf("endpoint %s:%d", e.Host, e.Port)
		}
		root.children = append(root.children, n)
	}
	if o.ControlPlane != nil {
		n := nodeOf("KubeadmControlPlane/"+o.ControlPlane.Name, o.ControlPlane.Status.Conditions, controlplanev1.KubeadmControlPlaneAvailableCondition)
		n.children = machineNodes(o, func(m *clusterv1.Machine) bool {
			_, yes := m.Labels[clusterv1.MachineControlPlaneLabel]
			return yes
		})
		root.children = append(root.children, n)
	}
	for i := range o.Deployments {
		md := &o.Deployments[i]
		n := nodeOf("MachineDeployment/"+md.Name, md.Status.Conditions, clusterv1.MachineDeploymentAvailableCondition)
		n.children = machineNodes(o, func(m *clusterv1.Machine) bool {
			return m.Labels[clusterv1.MachineDeploymentNameLabel] == md.Name
		})
		root.children = append(root.children, n)
	}
	return root
}

func machineNodes(o clusterObjects, belongs func(*clusterv1.Machine) bool) []*node {
	var nodes []*node
	for i := range o.Machines {
		m := &o.Machines[i]
		if !belongs(m) {
			continue
		}
		n := nodeOf("Machine/"+m.Name, m.Status.Conditions, clusterv1.MachineReadyCondition)
		if !m.DeletionTimestamp.IsZero() {
			n.state, n.reason = "False", "Deleting"
			n.message = message(m.Status.Conditions, clusterv1.MachineDeletingCondition)
		} else if n.state == "True" && n.message == "" {
			n.message = m.Spec.Version
		}
		if im := o.InfraMachines[m.Spec.InfrastructureRef.Name]; im != nil && n.state != "True" {
			n.children = append(n.children, nodeOf("CapstanMachine/"+im.Name, im.Status.Conditions, infrav1.ReadyCondition))
		}
		if h := o.Hosts[m.Spec.InfrastructureRef.Name]; h != nil {
			host := nodeOf("CapstanHost/"+h.Name, h.Status.Conditions, infrav1.ReadyCondition)
			host.reason = string(h.Status.Phase)
			if host.state == "True" {
				host.message = "zone " + h.Spec.Zone
				if h.Status.Agent != nil && h.Status.Agent.Address != "" {
					host.message += ", address " + h.Status.Agent.Address
				}
			}
			n.children = append(n.children, host)
		}
		nodes = append(nodes, n)
	}
	sort.Slice(nodes, func(i, j int) bool { return nodes[i].name < nodes[j].name })
	return nodes
}

func nodeOf(name string, conditions []metav1.Condition, kind string) *node {
	n := &node{name: name, state: "Unknown"}
	if c := condition(conditions, kind); c != nil {
		n.state, n.reason = string(c.Status), c.Reason
		if c.Status != metav1.ConditionTrue {
			n.message = oneLine(c.Message, 120)
		}
	}
	return n
}

// writeTree writes the tree with its columns aligned.
func writeTree(w io.Writer, root *node) {
	type row struct{ tree, state, reason, message string }
	var rows []row
	var walk func(n *node, lead, branch string)
	walk = func(n *node, lead, branch string) {
		rows = append(rows, row{lead + branch + n.name, n.state, n.reason, n.message})
		switch branch {
		case "├─":
			lead += "│ "
		case "└─":
			lead += "  "
		}
		for i, child := range n.children {
			b := "├─"
			if i == len(n.children)-1 {
				b = "└─"
			}
			walk(child, lead, b)
		}
	}
	walk(root, "", "")
	header := row{"NAME", "READY", "REASON", "MESSAGE"}
	width := func(get func(row) string) int {
		n := len([]rune(get(header)))
		for _, r := range rows {
			n = max(n, len([]rune(get(r))))
		}
		return n
	}
	first, second, third := width(func(r row) string { return r.tree }), width(func(r row) string { return r.state }), width(func(r row) string { return r.reason })
	for _, r := range append([]row{header}, rows...) {
		line := pad(r.tree, first) + "  " + pad(r.state, second) + "  " + pad(r.reason, third) + "  " + r.message
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
}

func pad(s string, n int) string { return s + strings.Repeat(" ", n-len([]rune(s))) }
