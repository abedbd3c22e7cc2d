//go:build linux

package kube_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestControlPlanes creates three control plane hosts with stacked etcd, and removes one.
func TestControlPlanes(t *testing.T) {
	if testing.Short() {
		t.Skip("makes whole nodes")
	}
	bundles, version := bundle(t)
	w := newWorld(t, bundles, version)
	step := steps(t)
	first := w.host("first", 11)
	initialize(t, first, version, "--upload-certs")
	step("first control plane is Ready")
	others := []*host{w.host("second", 12), w.host("third", 13)}
	for _, h := range others {
		join(t, h, first, hollow, "--control-plane", "--certificate-key", key)
		step(h.name + " control plane is Ready")
	}
	// The kubelet publishes its static pods once it has registered its Node. Joining does not wait for that.
	waitFor(t, time.Minute, "three members of etcd", func() error {
		out := first.must("kubectl", "get", "pods", "-n", "kube-system", "-l", "component=etcd", "-o", "name")
		if n := strings.Count(out, "pod/"); n != 3 {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
	last := others[1]
	last.kubeadm("reset", "--force", hollow)
	step("third control plane is reset")
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		if pid := last.process(name); pid != 0 {
			t.Errorf("%s still runs after kubeadm reset", name)
		}
	}
	// If the member were not removed, the other two would continue but not survive another failure.
	if out := first.must("kubectl", "exec", "-n", "kube-system", "etcd-first", "--", "kubectl", "--kubeconfig",
		"/etc/kubernetes/admin.conf", "get", "--raw", "/readyz"); out != "ok" {
		t.Errorf("the readiness of the API server is %q, want ok", out)
	}
}
