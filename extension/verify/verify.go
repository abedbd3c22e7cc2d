// Package verify is the part of the extension that holds back the next step of an upgrade until everything that has the
// new version works.
//
// [New] returns the part, which reads the state of the workload cluster. [Findings] is a pure chain of checks on that
// state. It names each node and component that has a problem, and each check that fails.
package verify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/extension/finding"
)

// State is the observed state of a cluster.
type State struct {
	// NotReady names the failed checks of the API server's /readyz. It is empty if the API server is ready.
	NotReady []string
	// ServerVersion is the version that the API server reports.
	ServerVersion string
	// Machines are the Machines of the Cluster in the management cluster, except those being deleted.
	Machines []Machine
	// Nodes are the Nodes of the workload cluster.
	Nodes []Node
	// StaticPods reports whether the control plane consists of static Pods on Machines of its own.
	StaticPods bool
	// Pods are the control plane's Pods.
	Pods []Pod
	// AddOns are add-ons that were not applied in their current form, or not removed.
	AddOns []string
}

// Machine is a Machine of the Cluster.
type Machine struct {
	Name string
	// Node is the name of the Machine's Node. It is empty if there is none yet.
	Node string
	// ControlPlane reports whether the Machine belongs to the control plane.
	ControlPlane bool
}

// Node is a Node of the workload cluster.
type Node struct {
	Name string
	// Ready is the Node's condition. Reason says why it is not ready.
	Ready  bool
	Reason string
	// Version is the version of the kubelet.
	Version string
}

// Pod is a static Pod of the control plane.
type Pod struct {
	// Component is, for example, "kube-apiserver".
	Component string
	// Node is the Node that the Pod runs on.
	Node string
	// Ready is the Pod's condition.
	Ready bool
	// Image is the Pod's image with its tag.
	Image string
}

// components are the control plane components that have the cluster's version.
var components = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"}

// etcd is a component, too, unless it is external. It has its own version.
const etcd = "etcd"

// Reasons of the part's findings.
const (
	ReasonVerified              = "Verified"
	ReasonNothing               = "NothingToVerify"
	ReasonUnreachable           = "ClusterUnreachable"
	ReasonAPIServerNotReady     = "APIServerNotReady"
	ReasonAPIServerVersion      = "APIServerVersion"
	ReasonNoControlPlaneMachine = "NoControlPlaneMachine"
	ReasonNoNode                = "NoNode"
	ReasonNodeNotReady          = "NodeNotReady"
	ReasonNodeVersion           = "NodeVersion"
	ReasonNoPod                 = "NoPod"
	ReasonPodNotReady           = "PodNotReady"
	ReasonPodVersion            = "PodVersion"
	ReasonAddOnOutstanding      = "AddOnOutstanding"
)

// check inspects the observed state and returns what is wrong.
type check func(state State, version string, workers bool) []finding.Finding

// checks are in the order in which people read the findings.
var checks = []check{apiServerIsReady, apiServerHasVersion, controlPlaneHasMachines, machinesAreRight, addOnsAreApplied}

// Findings returns everything that is wrong with a cluster that must have this version: the control plane and, if
// workers is true, the workers.
func Findings(state State, version string, workers bool) []finding.Finding {
	var found []finding.Finding
	for _, check := range checks {
		found = append(found, check(state, version, workers)...)
	}
	return found
}

func say(reason, format string, args ...any) finding.Finding {
	return finding.Finding{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func apiServerIsReady(state State, _ string, _ bool) (found []finding.Finding) {
	for _, failed := range state.NotReady {
		found = append(found, say(ReasonAPIServerNotReady, "the API server is not ready: %s", failed))
	}
	return found
}

// apiServerHasVersion only checks an API server that is ready.
func apiServerHasVersion(state State, version string, _ bool) (found []finding.Finding) {
	if len(state.NotReady) > 0 || same(state.ServerVersion, version) {
		return nil
	}
	return append(found, say(ReasonAPIServerVersion, "the API server has version %s, not %s",
		state.ServerVersion, version))
}

func controlPlaneHasMachines(state State, _ string, _ bool) []finding.Finding {
	if !state.StaticPods || slices.ContainsFunc(state.Machines, func(m Machine) bool { return m.ControlPlane }) {
		return nil
	}
	return []finding.Finding{say(ReasonNoControlPlaneMachine, "the control plane has no Machines")}
}

// machinesAreRight checks the Node of each Machine, and the static Pods on control plane Nodes.
func machinesAreRight(state State, version string, workers bool) (found []finding.Finding) {
	for _, m := range state.Machines {
		if !m.ControlPlane && !workers {
			continue
		}
		node := find(state.Nodes, func(n Node) bool { return n.Name == m.Node })
		switch {
		case m.Node == "":
			found = append(found, say(ReasonNoNode, "Machine %s has no Node yet", m.Name))
			continue
		case node == nil:
			found = append(found, say(ReasonNoNode, "Node %s of Machine %s does not exist", m.Node, m.Name))
			continue
		case !node.Ready:
			found = append(found, say(ReasonNodeNotReady, "Node %s is not Ready (%s)", node.Name, node.Reason))
		}
		if !same(node.Version, version) {
			found = append(found, say(ReasonNodeVersion, "Node %s has version %s, not %s", node.Name, node.Version, version))
		}
		if m.ControlPlane && state.StaticPods {
			found = append(found, podsAreRight(state.Pods, m.Node, version)...)
		}
	}
	return found
}

// podsAreRight checks the control plane's Pods on one node.
func podsAreRight(pods []Pod, node, version string) (found []finding.Finding) {
	for _, component := range append(slices.Clone(components), etcd) {
		pod := find(pods, func(p Pod) bool { return p.Component == component && p.Node == node })
		switch {
		case pod == nil && component == etcd:
		case pod == nil:
			found = append(found, say(ReasonNoPod, "%s on Node %s has no Pod", component, node))
		case !pod.Ready:
			found = append(found, say(ReasonPodNotReady, "%s on Node %s is not Ready", component, node))
		case component != etcd && !same(tag(pod.Image), version):
			found = append(found, say(ReasonPodVersion, "%s on Node %s has version %s, not %s",
				component, node, tag(pod.Image), version))
		}
	}
	return found
}

func addOnsAreApplied(state State, _ string, _ bool) (found []finding.Finding) {
	for _, name := range state.AddOns {
		found = append(found, say(ReasonAddOnOutstanding, "add-on %s is not as wanted", name))
	}
	return found
}

func find[T any](all []T, is func(T) bool) *T {
	if i := slices.IndexFunc(all, is); i >= 0 {
		return &all[i]
	}
	return nil
}

// tag returns the tag of an image, without a digest.
func tag(image string) string {
	image, _, _ = strings.Cut(image, "@")
	name := image[strings.LastIndex(image, "/")+1:]
	_, tag, _ := strings.Cut(name, ":")
	return tag
}

// same compares versions without build metadata, which tags write differently.
func same(a, b string) bool {
	plain := func(v string) string {
		if i := strings.IndexAny(v, "+_"); i >= 0 {
			v = v[:i]
		}
		return v
	}
	return plain(a) == plain(b)
}
