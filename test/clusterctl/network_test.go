//go:build linux

package clusterctl

import (
	"os"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestWhoReachesTheExtension compares the NetworkPolicy of the runtime extension with the Pods that the components
// create in a management cluster: Cluster API's core can reach the hooks, other providers can't, and everybody can
// reach the probes. Enforcing the policy is up to the management cluster's network.
func TestWhoReachesTheExtension(t *testing.T) {
	w := newWorld(t)
	extension := w.objectsOf("runtime-extension-capstan", current, "runtime-extension-components.yaml")
	policy, pods := &networkingv1.NetworkPolicy{}, &appsv1.Deployment{}
	w.single(extension, "NetworkPolicy", policy)
	w.single(extension, "Deployment", pods)
	if policy.Namespace != pods.Namespace || !w.selects(&policy.Spec.PodSelector, pods.Spec.Template.Labels) {
		t.Errorf("the policy selects %v in %s; Pods have %v in %s",
			policy.Spec.PodSelector, policy.Namespace, pods.Spec.Template.Labels, pods.Namespace)
	}
	ports := map[string]int32{}
	for _, p := range pods.Spec.Template.Spec.Containers[0].Ports {
		ports[p.Name] = p.ContainerPort
	}
	reaches := func(from map[string]string, port string) bool {
		for _, rule := range policy.Spec.Ingress {
			open := false
			for _, p := range rule.Ports {
				open = open || *p.Port == intstr.FromString(port) || *p.Port == intstr.FromInt32(ports[port])
			}
			if open && (len(rule.From) == 0 || w.admits(rule.From, from)) {
				return true
			}
		}
		return false
	}
	for directory, c := range map[string]struct {
		version, file string
		reaches       bool
	}{
		"cluster-api":            {version(t), "core-components.yaml", true},
		"bootstrap-kubeadm":      {version(t), "bootstrap-components.yaml", false},
		"control-plane-kubeadm":  {version(t), "control-plane-components.yaml", false},
		"infrastructure-capstan": {current, "infrastructure-components.yaml", false},
	} {
		other := &appsv1.Deployment{}
		w.single(w.objectsOf(directory, c.version, c.file), "Deployment", other)
		if got := reaches(other.Spec.Template.Labels, "hooks"); got != c.reaches {
			t.Errorf("%s reaches the hooks: %t, want %t", directory, got, c.reaches)
		}
		t.Attr("rule", "RX-40")
		if !reaches(other.Spec.Template.Labels, "healthz") {
			t.Errorf("%s does not reach the probes and metrics", directory)
		}
	}
	if ports["hooks"] == 0 || ports["healthz"] == 0 || reaches(nil, "other") {
		t.Errorf("the ports are %v, want hooks and healthz; other ports are open: %t", ports, reaches(nil, "other"))
	}
	if len(policy.Spec.PolicyTypes) != 1 || policy.Spec.PolicyTypes[0] != networkingv1.PolicyTypeIngress {
		t.Errorf("the policy restricts %v, but the extension calls clusters and buckets at any address",
			policy.Spec.PolicyTypes)
	}
}

// objectsOf returns the objects of a file of the repository.
func (w *world) objectsOf(directory, version, file string) []*unstructured.Unstructured {
	w.Helper()
	text, err := os.ReadFile(filepath.Join(w.repository, directory, version, file))
	w.must(err)
	return documents(w.T, string(text))
}

// single decodes the one object of a kind. It fails the test if there is none, or more than one.
func (w *world) single(all []*unstructured.Unstructured, kind string, into any) {
	w.Helper()
	found := 0
	for _, o := range all {
		if o.GetKind() == kind {
			found++
			w.must(runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, into))
		}
	}
	if found != 1 {
		w.Fatalf("there are %d objects of kind %s, want 1", found, kind)
	}
}

// selects reports whether a selector selects a Pod with these labels.
func (w *world) selects(selector *metav1.LabelSelector, pod map[string]string) bool {
	w.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	w.must(err)
	return s.Matches(labels.Set(pod))
}

// admits reports whether peers include Pods with these labels, in any namespace.
func (w *world) admits(peers []networkingv1.NetworkPolicyPeer, pod map[string]string) bool {
	w.Helper()
	for _, p := range peers {
		if p.IPBlock == nil && p.PodSelector != nil && p.NamespaceSelector != nil &&
			w.selects(p.NamespaceSelector, nil) &&
			w.selects(p.PodSelector, pod) {
			return true
		}
	}
	return false
}
