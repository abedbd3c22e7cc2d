package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/test/long"
)

// failing is a machine whose bootstrap fails late: its kubelet has registered a Node, but kubeadm's success can't be
// recorded.
const failing = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: late}
spec:
  clusterName: %[1]s
  version: %[2]s
  bootstrap: {configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfig, name: late}}
  infrastructureRef: {apiGroup: infrastructure.capstan.dev, kind: CapstanMachine, name: late}
---
apiVersion: infrastructure.capstan.dev/v1beta2
kind: CapstanMachine
metadata: {name: late, labels: {cluster.x-k8s.io/cluster-name: %[1]s}}
spec: {}
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfig
metadata: {name: late, labels: {cluster.x-k8s.io/cluster-name: %[1]s}}
spec:
  joinConfiguration:
    nodeRegistration:
      name: "{{ ds.meta_data.local_hostname }}"
      kubeletExtraArgs:
        - {name: provider-id, value: "{{ ds.meta_data.provider_id }}"}
  preKubeadmCommands: ["rm -rf /run/cluster-api && touch /run/cluster-api"]
`

// TestAFailedMachineLeavesNoNode deletes a machine whose Node is unknown to Cluster API. The Node must be deleted, too.
func TestAFailedMachineLeavesNoNode(t *testing.T) {
	long.Need(t)
	const name = "noted"
	must(t, "cluster", "create", name, "--workers", "0")
	version := must(t, "kubectl", "get", "cluster", name, "-o", "jsonpath={.spec.topology.version}")
	apply(t, fmt.Sprintf(failing, name, version))
	eventually(t, "the bootstrap has failed", func() error {
		out := must(t, "kubectl", "get", "capstanmachine", "late",
			"-o", `jsonpath={.status.conditions[?(@.type=="Bootstrapped")].reason}`)
		if out != "BootstrapFailed" {
			return fmt.Errorf("the reason of condition Bootstrapped is %q", out)
		}
		return nil
	})
	nodes := func() string { return must(t, "kubectl", "--cluster", name, "get", "nodes", "-o", "name") }
	if out := nodes(); !strings.Contains(out, "node/late\n") {
		t.Fatalf("the Nodes are\n%swant one of machine late, otherwise the test proves nothing", out)
	}
	if ref := must(t, "kubectl", "get", "machine", "late", "-o", "jsonpath={.status.nodeRef.name}"); ref != "" {
		t.Fatalf("Cluster API knows Node %s, so the test proves nothing", ref)
	}
	must(t, "kubectl", "delete", "machine", "late", "--timeout=60s")
	if out := nodes(); strings.Contains(out, "node/late\n") {
		t.Errorf("the deleted machine still has a Node:\n%s", out)
	}
	must(t, "cluster", "delete", name)
	vanishes(t, name)
}
