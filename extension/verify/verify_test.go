package verify

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

var camelCase = regexp.MustCompile(`^([A-Z][A-Za-z]+)+$`)

const version = "v1.36.3"

// right returns the state of a cluster with one control plane and one worker, where everything is right.
func right() State {
	s := State{
		ServerVersion: version,
		StaticPods:    true,
		Machines:      []Machine{{Name: "cp", Node: "cp", ControlPlane: true}, {Name: "w", Node: "w"}},
		Nodes:         []Node{{Name: "cp", Ready: true, Version: version}, {Name: "w", Ready: true, Version: version}},
	}
	for _, component := range components {
		s.Pods = append(s.Pods, Pod{
			Component: component, Node: "cp", Ready: true, Image: "example.org:5000/" + component + ":" + version,
		})
	}
	s.Pods = append(s.Pods, Pod{Component: etcd, Node: "cp", Ready: true, Image: "example.org/etcd:3.6.4-0"})
	return s
}

func TestFindings(t *testing.T) {
	pod := func(s *State, component string) *Pod {
		return &s.Pods[slices.IndexFunc(s.Pods, func(p Pod) bool { return p.Component == component })]
	}
	for name, c := range map[string]struct {
		change       func(*State)
		controlPlane string // what is wrong after the control plane's upgrade
		all          string // what is wrong after the cluster's upgrade
	}{
		"all is right": {func(*State) {}, "", ""},
		"a check of the API server fails": {func(s *State) { s.NotReady = []string{"etcd"} },
			"the API server is not ready: etcd", "the API server is not ready: etcd"},
		"the API server still has the old version": {func(s *State) { s.ServerVersion = "v1.35.4" },
			"the API server has version v1.35.4, not v1.36.3", "the API server has version v1.35.4, not v1.36.3"},
		"a control plane node is not Ready": {
			func(s *State) { s.Nodes[0].Ready, s.Nodes[0].Reason = false, "KubeletNotReady" },
			"Node cp is not Ready (KubeletNotReady)", "Node cp is not Ready (KubeletNotReady)",
		},
		"a worker is not Ready": {func(s *State) { s.Nodes[1].Ready, s.Nodes[1].Reason = false, "X" }, "",
			"Node w is not Ready (X)"},
		"a worker still has the old version": {func(s *State) { s.Nodes[1].Version = "v1.35.4" }, "",
			"Node w has version v1.35.4, not v1.36.3"},
		"a kubelet version with build metadata": {func(s *State) { s.Nodes[1].Version = "v1.36.3+vendor.1" }, "", ""},
		"a Node is not Ready, and old": {func(s *State) { s.Nodes[0] = Node{Name: "cp", Reason: "X", Version: "v1.35.4"} },
			"Node cp is not Ready (X); Node cp has version v1.35.4, not v1.36.3",
			"Node cp is not Ready (X); Node cp has version v1.35.4, not v1.36.3"},
		"a Machine without a Node": {func(s *State) { s.Machines[1].Node = "" }, "",
			"Machine w has no Node yet"},
		"a Node that is gone": {func(s *State) { s.Nodes = s.Nodes[1:] },
			"Node cp of Machine cp does not exist", "Node cp of Machine cp does not exist"},
		"Nodes without a Machine do not count": {func(s *State) { s.Nodes = append(s.Nodes, Node{Name: "x"}) }, "", ""},
		"a component without a Pod": {func(s *State) { s.Pods = s.Pods[1:] },
			"kube-apiserver on Node cp has no Pod", "kube-apiserver on Node cp has no Pod"},
		"a component that is not Ready": {func(s *State) { pod(s, "kube-scheduler").Ready = false },
			"kube-scheduler on Node cp is not Ready", "kube-scheduler on Node cp is not Ready"},
		"a component that still has the old version": {func(s *State) { pod(s, "kube-scheduler").Image = "k:v1.35.4" },
			"kube-scheduler on Node cp has version v1.35.4, not v1.36.3",
			"kube-scheduler on Node cp has version v1.35.4, not v1.36.3"},
		"an image with a digest": {
			func(s *State) { pod(s, "kube-scheduler").Image = "e/k:v1.36.3_1@sha256:abc" }, "", "",
		},
		"etcd that is not Ready": {func(s *State) { pod(s, etcd).Ready = false },
			"etcd on Node cp is not Ready", "etcd on Node cp is not Ready"},
		"external etcd":                   {func(s *State) { s.Pods = s.Pods[:3] }, "", ""},
		"a control plane of another kind": {func(s *State) { s.Pods, s.StaticPods = nil, false }, "", ""},
		"an add-on that is not applied": {func(s *State) { s.AddOns = []string{"ConfigMap shop/x"} },
			"add-on ConfigMap shop/x is not as wanted", "add-on ConfigMap shop/x is not as wanted"},
		"kubeadm's control plane without Machines": {func(s *State) { s.Machines = s.Machines[1:] },
			"the control plane has no Machines", "the control plane has no Machines"},
		"another kind, and no Machines": {func(s *State) { s.Machines, s.StaticPods = s.Machines[1:], false }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for workers, want := range map[bool]string{false: c.controlPlane, true: c.all} {
				state := right()
				c.change(&state)
				var messages []string
				for _, found := range Findings(state, version, workers) {
					if !camelCase.MatchString(found.Reason) {
						t.Errorf("the reason of %q is %q", found.Message, found.Reason)
					}
					messages = append(messages, found.Message)
				}
				if got := strings.Join(messages, "; "); got != want {
					t.Errorf("with workers %t: %s, want %s", workers, got, want)
				}
			}
		})
	}
}
