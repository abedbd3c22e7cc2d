package run

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/test/machine"
)

// impatient is a MachineHealthCheck for the workers of the test's cluster.
const impatient = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineHealthCheck
metadata: {name: impatient, namespace: default}
spec:
  clusterName: rack
  selector: {matchLabels: {topology.cluster.x-k8s.io/deployment-name: md-0}}
  checks:
    nodeStartupTimeoutSeconds: 1200
    unhealthyNodeConditions: [{type: Ready, status: Unknown, timeoutSeconds: 20}]
`

// TestDayTwo tests events in the life of a cluster after its first day: a worker is added and removed, a computer dies,
// and the plane is down.
func TestDayTwo(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Dir(w.home)
	w.asWritten(dir, "--workers", "1")
	w.scaled()
	w.died(dir)
	w.alone()
	w.returned()
}

// scaled adds a worker, and removes one.
func (w *world) scaled() {
	w.run("cluster", "scale", "rack", "--workers", "2")
	if nodes := w.nodes(); len(nodes) != 3 {
		w.Fatalf("Nodes that are Ready: %q, want 3", nodes)
	}
	w.step("one worker was added")
	w.run("cluster", "scale", "rack", "--workers", "1")
	w.until("a host is free and clean", w.oneIsFree)
	if nodes := w.nodes(); len(nodes) != 2 {
		w.Fatalf("Nodes that are Ready: %q, want 2", nodes)
	}
	w.step("one worker was removed")
}

// oneIsFree reports whether exactly one machine is a free host.
func (w *world) oneIsFree() (bool, string) {
	free, text := w.free()
	return free == 1, text
}

// nodes returns the names of the Nodes that are Ready.
func (w *world) nodes() (ready []string) {
	w.Helper()
	for line := range strings.Lines(w.kubectl("get", "nodes", "--no-headers")) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[1] == "Ready" {
			ready = append(ready, fields[0])
		}
	}
	return ready
}

// worker returns the machine that is the only worker, and the name of its Machine object.
func (w *world) worker() (*machine.Machine, string) {
	w.Helper()
	for _, m := range w.machines[1:] {
		if name := w.run("kubectl", "get", "capstanhost", m.Name, "-o", "jsonpath={.spec.claim.machine}"); name != "" {
			return m, name
		}
	}
	w.Fatal("there is no worker")
	return nil, ""
}

// died cuts the power of the worker. The health check deletes its Machine, a person declares the computer dead, and
// another host gets the replacement. When the computer comes back, it is cleaned before it is free.
func (w *world) died(dir string) {
	path := filepath.Join(dir, "check.yaml")
	if err := os.WriteFile(path, []byte(impatient), 0o600); err != nil {
		w.Fatal(err)
	}
	w.run("kubectl", "apply", "-f", path)
	victim, before := w.worker()
	if err := victim.Kill(); err != nil {
		w.Fatal(err)
	}
	w.step(victim.Name + " is dead")
	w.until("the claim of the dead computer is released", func() (bool, string) {
		text := w.run("kubectl", "get", "capstanhost", victim.Name, "-o", "jsonpath={.spec.claim}")
		return strings.Contains(text, `"released":true`), text
	})
	w.step("the health check has deleted the Machine of the dead computer")
	w.run("host", "abandon", victim.Name)
	w.until("another host is the worker", func() (bool, string) {
		nodes := w.nodes()
		return len(nodes) == 2 && !slices.Contains(nodes, before), fmt.Sprint(nodes)
	})
	w.step("another host is the worker")
	if err := victim.Boot(w.Context()); err != nil {
		w.Fatal(err)
	}
	w.until("the computer that was dead is free and clean", func() (bool, string) { // until then it is Quarantined
		text := w.run("host", "list")
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, victim.Name+" ") && strings.Contains(line, " Available ") {
				return true, ""
			}
		}
		return false, text
	})
	if left := w.on(victim, "ls /etc/kubernetes /var/lib/kubelet 2>&1 || true"); strings.Contains(left, ".conf") {
		w.Errorf("a kubelet's configuration is left on %s: %s", victim.Name, left)
	}
	w.step(victim.Name + " is back, free and clean")
}

// alone stops the plane, checks that the cluster works without it, and starts the plane again, which must find the same
// machines as before.
func (w *world) alone() {
	machines := func() string {
		return w.run("kubectl", "get", "machines,capstanmachines", "-o",
			"jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.uid}{\"\\n\"}{end}")
	}
	before := machines()
	w.run("down")
	const kubectl = "kubectl --kubeconfig /etc/kubernetes/admin.conf --namespace kube-system "
	first := w.machines[0]
	w.on(first, kubectl+"delete pods -l k8s-app=kube-dns --wait --timeout=120s")
	w.on(first, kubectl+"rollout status deployment/coredns --timeout=240s")
	w.step("pods are replaced without a plane")
	w.run("up", "--timeout", "5m")
	w.until("the plane finds the host that is free", w.oneIsFree)
	w.until("the plane finds the cluster", func() (bool, string) {
		text := w.run("kubectl", "get", "cluster", "rack", "-o",
			`jsonpath={.status.conditions[?(@.type=="Available")]}`)
		return strings.Contains(text, `"status":"True"`), text
	})
	if after := machines(); after != before {
		w.Errorf("before the plane stopped, the machines were\n%s\nand now they are\n%s", before, after)
	}
	w.step("the plane is back")
}
