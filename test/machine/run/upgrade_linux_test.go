package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// BeforeVariable names the environment variable with a bundle of the previous Kubernetes minor.
const BeforeVariable = "CAPSTAN_TEST_BUNDLE_BEFORE"

// changing is a cluster whose control plane may move from host to host, because its endpoint is not the address of a
// host.
const changing = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: rack, namespace: default}
spec:
  clusterNetwork:
    pods: {cidrBlocks: [10.244.0.0/16]}
    services: {cidrBlocks: [10.96.0.0/12]}
  topology:
    classRef: {name: %s}
    version: %s
    controlPlane: {replicas: 1}
    workers:
      machineDeployments:
        - {class: default-worker, name: md-0, replicas: 1}
    variables:
      - {name: endpoint, value: {host: %s, port: 6443}}
      - {name: podNetwork, value: capstan}
      - {name: controlPlaneHosts, value: {%[4]s: "true"}}
      - {name: workerHosts, value: {%[4]s: "true"}}
`

// TestUpgrade upgrades a cluster of two machines from the previous minor, with a third machine as room for the rollout.
// The user's own balancer is the endpoint, because the control plane moves from one host to another.
func TestUpgrade(t *testing.T) {
	before := os.Getenv(BeforeVariable)
	if before == "" {
		t.Skip("upgrades machines: make test-owned-upgrade")
	}
	w := newWorld(t)
	dir := filepath.Dir(w.home)
	w.balance()
	w.run("bundle", "import", before)
	w.run("bundle", "import", os.Getenv(BundleVariable))
	w.run("up", "--hosts", "1", "--listen", planeAddress, "--timeout", "5m")
	w.enrolled()
	w.class(dir)
	old, now := version(before), version(os.Getenv(BundleVariable))
	w.create(dir, old)
	w.versions(old)
	w.step("a cluster of " + old)
	w.run("cluster", "upgrade", "rack", "--kubernetes-version", now, "--timeout", "10m")
	w.step("a cluster of " + now)
	w.versions(now)
	w.until("a host is free and clean", w.oneIsFree)
	for _, what := range []string{"deployment/coredns", "daemonset/kube-proxy", "daemonset/capstan-net"} {
		w.kubectl("rollout", "status", what, "--namespace", "kube-system", "--timeout=240s")
	}
	w.step("pods of the system run on the machines that are new")
	w.returned()
}

// version returns the version in the name of a bundle.
func version(bundle string) string { return strings.TrimSuffix(filepath.Base(bundle), ".tar.gz") }

// enrolled runs the enrolment line of one credential on all machines.
func (w *world) enrolled() {
	w.Helper()
	line := strings.TrimSpace(w.run("host", "token", "create", "--uses", fmt.Sprint(len(w.machines))))
	for _, m := range w.machines {
		w.on(m, line)
	}
	w.until("hosts are Available", w.available)
	w.step("hosts Available")
}

// create creates the cluster with a version, and waits until it is Available.
func (w *world) create(dir, version string) {
	w.Helper()
	path := filepath.Join(dir, "cluster.yaml")
	text := fmt.Sprintf(changing, className, version, endpointAddress, infrav1.EnrolledLabel)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
	w.run("kubectl", "apply", "-f", path)
	w.run("kubectl", "wait", "cluster/rack", "--for=condition=Available", "--timeout=10m")
}

// versions requires that both Nodes are Ready and have this version.
func (w *world) versions(want string) {
	w.Helper()
	w.until("two Nodes of "+want, func() (bool, string) {
		text := w.kubectl("get", "nodes", "--no-headers")
		return len(w.nodes()) == 2 && strings.Count(text, want) == 2 && strings.Count(text, "\n") == 2, text
	})
}
