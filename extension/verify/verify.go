// Package verify decides whether a workload cluster is right after its version has changed. It only computes: [Problems] is a function of what was seen,
// and names each node, component and check that is not right.
package verify

import (
	"fmt"
	"slices"
	"strings"
)

// State is what was seen of a cluster.
type State struct {
	// NotReady names the failed checks of the API server's /readyz; empty if it is ready.
	NotReady []string
	// ServerVersion is what the API server says that it is.
	ServerVersion string
	// Machines of the Cluster in the management cluster, without those that are being deleted.
	Machines []Machine
	// Nodes of the workload cluster.
	Nodes []Node
	// StaticPods tells whether the control plane consists of static Pods, on Machines of its own.
	StaticPods bool
	// Pods are those of the control plane.
	Pods []Pod
	// AddOns that were not applied as they are wanted, or not removed.
	AddOns []string
}

// Machine is a Machine of the Cluster.
type Machine struct {
	Name string
	// Node that it shows up as; empty if it has none yet.
	Node string
	// ControlPlane is true for a Machine of the control plane.
	ControlPlane bool
}

// Node is a Node of the workload cluster.
type Node struct {
	Name string
	// Ready is its condition; Reason says why it is not.
	Ready  bool
	Reason string
	// Version of the kubelet.
	Version string
}

// Pod is a static Pod of the control plane.
type Pod struct {
	// Component, for example "kube-apiserver".
	Component string
	// Node that it runs on.
	Node string
	// Ready is its condition.
	Ready bool
	// Image that it runs, with its tag.
	Image string
}

// components are the parts of a control plane that have its version.
var components = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"}

// etcd is a part of it, unless it is elsewhere; it has a version of its own.
const etcd = "etcd"

// Problems names everything that is not right with a cluster that shall have this version, the control plane alone or workers, too. None: all is right.
func Problems(state State, version string, workers bool) []string {
	var problems []string
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for _, check := range state.NotReady {
		say("the API server is not ready: %s", check)
	}
	if len(state.NotReady) == 0 && !same(state.ServerVersion, version) {
		say("the API server has version %s, not %s", state.ServerVersion, version)
	}
	if state.StaticPods && !slices.ContainsFunc(state.Machines, func(m Machine) bool { return m.ControlPlane }) {
		say("the control plane has no Machines")
	}
	for _, m := range state.Machines {
		if !m.ControlPlane && !workers {
			continue
		}
		node := find(state.Nodes, func(n Node) bool { return n.Name == m.Node })
		switch {
		case m.Node == "":
			say("Machine %s has no Node yet", m.Name)
			continue
		case node == nil:
			say("Node %s of Machine %s does not exist", m.Node, m.Name)
			continue
		case !node.Ready:
			say("Node %s is not Ready (%s)", node.Name, node.Reason)
		}
		if !same(node.Version, version) {
			say("Node %s has version %s, not %s", node.Name, node.Version, version)
		}
		if m.ControlPlane && state.StaticPods {
			problems = append(problems, podProblems(state.Pods, m.Node, version)...)
		}
	}
	for _, name := range state.AddOns {
		say("add-on %s is not as it is wanted", name)
	}
	return problems
}

// podProblems names what is not right with the control plane on one node.
func podProblems(pods []Pod, node, version string) []string {
	var problems []string
	for _, component := range append(slices.Clone(components), etcd) {
		pod := find(pods, func(p Pod) bool { return p.Component == component && p.Node == node })
		switch {
		case pod == nil && component == etcd:
		case pod == nil:
			problems = append(problems, fmt.Sprintf("%s on Node %s has no Pod", component, node))
		case !pod.Ready:
			problems = append(problems, fmt.Sprintf("%s on Node %s is not Ready", component, node))
		case component != etcd && !same(tag(pod.Image), version):
			problems = append(problems, fmt.Sprintf("%s on Node %s has version %s, not %s", component, node, tag(pod.Image), version))
		}
	}
	return problems
}

func find[T any](all []T, is func(T) bool) *T {
	if i := slices.IndexFunc(all, is); i >= 0 {
		return &all[i]
	}
	return nil
}

// tag gives the tag of an image, which may be followed by a digest.
func tag(image string) string {
	image, _, _ = strings.Cut(image, "@")
	name := image[strings.LastIndex(image, "/")+1:]
	_, tag, _ := strings.Cut(name, ":")
	return tag
}

// same compares versions without what builds add to them, which tags write in another way.
func same(a, b string) bool {
	plain := func(v string) string {
		if i := strings.IndexAny(v, "+_"); i >= 0 {
			v = v[:i]
		}
		return v
	}
	return plain(a) == plain(b)
}
