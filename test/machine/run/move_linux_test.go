package run

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/test/leftovers"
)

// targetAddress is the address of the plane that a cluster moves to.
const targetAddress = "192.0.2.2"

// TestMove moves a cluster on machines to another plane. The agents follow; Nodes, pods and services stay the same.
// Then the old plane is removed. Another machine enrolls at the new plane, which adds it to the cluster and finally
// deletes the cluster.
func TestMove(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Dir(w.home)
	target := w.another(filepath.Join(dir, "target"))
	w.asWritten(dir, "--workers", "1")
	before := w.kept()
	w.run("clusterctl", "move", "--to-kubeconfig", filepath.Join(target.home, "kubeconfig"), "--agent-server",
		"https://"+targetAddress+":7443")
	w.step("moved")
	for _, kind := range []string{"clusters", "machines", "capstanmachines"} {
		if left := w.run("kubectl", "get", kind, "-o", "name"); left != "" {
			t.Errorf("the old plane still has %s", left)
		}
	}
	target.until("two hosts are in use in the target", func() (bool, string) {
		text := target.run("host", "list")
		return strings.Count(text, "InUse") == 2, text
	})
	target.until("machines are available in the target", func() (bool, string) {
		text := target.run("kubectl", "get", "machines", "-o",
			`jsonpath={range .items[*]}{.metadata.name} {.status.conditions[?(@.type=="Available")].status}{"\n"}{end}`)
		return strings.Count(text, " True\n") == 2 && strings.Count(text, "\n") == 2, text
	})
	w.step("all machines are available in the other plane")
	w.run("down")
	if after := target.kept(); after != before {
		t.Errorf("Nodes, pods and services were\n%s\nand are\n%s", before, after)
	}
	free := w.machines[1]
	if strings.Contains(target.run("kubectl", "get", "capstanhosts", "-o", "name"), free.Name) {
		free = w.machines[2]
	}
	w.on(free, strings.TrimSpace(target.run("host", "token", "create")))
	target.until("a host is free and clean", target.oneIsFree)
	w.step(free.Name + " has enrolled at the other plane")
	target.run("cluster", "scale", "rack", "--workers", "2")
	if nodes := target.nodes(); len(nodes) != 3 {
		t.Errorf("Nodes that are Ready: %q, want 3", nodes)
	}
	w.step("one worker was added")
	target.returned()
}

// another starts another plane in the same network, with the same machines.
func (w *world) another(home string) *world {
	w.Helper()
	other := &world{T: w.T, began: w.began, capstan: w.capstan, home: home, lan: w.lan, machines: w.machines}
	if err := w.lan.Add(targetAddress); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if w.Failed() {
			other.explain()
		}
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		if out, err := other.command(ctx, "down", "--delete").CombinedOutput(); err != nil {
			w.Errorf("capstan down: %v\n%s", err, out)
		}
		for _, left := range leftovers.Of(home) {
			w.Errorf("left behind: %s", left)
		}
	})
	other.run("up", "--hosts", "1", "--listen", targetAddress, "--timeout", "5m")
	other.run("bundle", "import", os.Getenv(BundleVariable)) // a move does not transfer bundles
	other.step("another plane is up")
	return other
}

// kept returns what a move must not change: Nodes, pods, and the processes of the machines' services.
func (w *world) kept() string {
	w.Helper()
	text := w.kubectl("get", "nodes", "-o",
		"jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {.status.nodeInfo.bootID}{\"\\n\"}{end}") +
		w.kubectl("get", "pods", "-A", "-o",
			"jsonpath={range .items[*]}{.metadata.name} {.metadata.uid}{\"\\n\"}{end}")
	for _, m := range w.machines {
		text += m.Name + " " + w.on(m, "systemctl show --property=MainPID kubelet containerd || true")
	}
	return text
}
