package run

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// KillsVariable names the environment variable with the number of kills. seedVariable names the environment variable
// with the seed of the random numbers that choose the kills.
const (
	KillsVariable = "CAPSTAN_TEST_KILLS"
	seedVariable  = "CAPSTAN_TEST_SEED"
)

// steady has two workloads: a DaemonSet, whose containers must outlive all kills without being replaced or restarted,
// and a Deployment whose pods come and go.
const steady = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: steady}
spec:
  selector: {matchLabels: {app: steady}}
  template:
    metadata: {labels: {app: steady}}
    spec:
      tolerations: [{operator: Exists}]
      containers: [{name: steady, image: "` + podImage + `", args: [wait]}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: restless}
spec:
  replicas: 0
  selector: {matchLabels: {app: restless}}
  template:
    metadata: {labels: {app: restless}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: restless, image: "` + podImage + `", args: [wait]}]
`

// TestKillsOnMachines kills agents, kubelets, containerd and the plane at random points while pods come and go. Nothing
// is lost: hosts and machines stay, containers keep running, the number of pods becomes right, and no container is left
// over.
func TestKillsOnMachines(t *testing.T) {
	kills, seed := 20, uint64(time.Now().UnixNano())
	if text := os.Getenv(KillsVariable); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("%s=%q is not a number of kills", KillsVariable, text)
		}
		kills = n
	}
	if text := os.Getenv(seedVariable); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s=%q is not a seed", seedVariable, text)
		}
		seed = n
	}
	w := newWorld(t)
	dir := filepath.Dir(w.home)
	w.asWritten(dir)
	w.images(dir)
	manifest := filepath.Join(dir, "steady.yaml")
	if err := os.WriteFile(manifest, []byte(steady), 0o600); err != nil {
		t.Fatal(err)
	}
	w.kubectl("apply", "-f", manifest)
	w.kubectl("rollout", "status", "daemonset/steady", "--timeout=240s")
	before := w.lasting()
	t.Logf("%d kills, %s=%d", kills, seedVariable, seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for n := range kills {
		began := time.Now()
		t.Logf("kill %d: %s", n+1, w.disturb(random, n))
		t.Logf("kill %d: %.1f s: %s", n+1, time.Since(began).Seconds(), w.converged(n%2*4, before))
	}
	w.kubectl("delete", "-f", manifest)
	w.returned()
}

// lasting returns what no kill may change: machines, their hosts, Nodes, and the containers of the DaemonSet steady.
func (w *world) lasting() string {
	w.Helper()
	return w.run("kubectl", "get", "machines,capstanmachines", "-o",
		"jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.uid}{\"\\n\"}{end}") +
		w.run("kubectl", "get", "capstanhosts", "-o",
			"jsonpath={range .items[*]}{.metadata.name} {.spec.claim.providerID} {.spec.epoch}{\"\\n\"}{end}") +
		w.kubectl("get", "nodes", "-o", "jsonpath={range .items[*]}{.metadata.name} {.metadata.uid}{\"\\n\"}{end}") +
		w.kubectl("get", "pods", "-l", "app=steady", "-o",
			"jsonpath={range .items[*]}{.metadata.name} {.status.containerStatuses[0].containerID}{\"\\n\"}{end}")
}

// disturb changes the number of requested pods, kills something a moment later, and returns what it killed.
func (w *world) disturb(random *rand.Rand, n int) string {
	w.Helper()
	w.kubectl("scale", "deployment/restless", "--replicas", strconv.Itoa(n%2*4))
	time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond) // the random point
	m := w.machines[random.IntN(len(w.machines))]
	switch victim := []string{"capstan-agent", "kubelet", "containerd", "plane"}[random.IntN(4)]; victim {
	case "plane":
		w.killPlane()
		return "the plane"
	default:
		w.on(m, "systemctl kill --kill-who=main --signal=KILL "+victim)
		return victim + " on " + m.Name
	}
}

// killPlane kills the process of the plane, and starts it again.
func (w *world) killPlane() {
	w.Helper()
	killed := false
	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range processes {
		data, err := os.ReadFile(path)
		args := strings.Split(string(data), "\x00")
		if err != nil || len(args) < 2 || args[1] != "plane" || !slices.Contains(args, w.home) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if p, err := os.FindProcess(pid); err == nil {
			killed = p.Kill() == nil || killed
		}
	}
	if !killed {
		w.Fatal("the plane has no process")
	}
	w.run("up", "--timeout", "5m")
}

// containersOf returns the command line that lists containers of the test's image: all, or only running ones. The
// kubelet keeps an exited container for the logs of its pod.
func containersOf(all bool) string {
	const list = "for id in $(ctr -n k8s.io containers list 2>/dev/null | grep '" + podImage + "' | cut -d' ' -f1); do "
	if all {
		return list + "echo $id; done"
	}
	return list + "ctr -n k8s.io tasks list 2>/dev/null | grep \"^$id .*RUNNING\" || true; done"
}

// thaw returns the containers that are frozen now. It thaws those of them that were already frozen at its last call;
// before is the result of that call. With version 1 of control groups, which these machines share with this computer,
// runc freezes a container while it changes the container's limits. A kubelet that is killed cancels the creation of a
// sandbox, containerd then kills runc, and the container may stay frozen: it ignores SIGKILL, so the kubelet can't
// delete the pod. With version 2, which Kubernetes requires by default, SIGKILL ends frozen processes.
func (w *world) thaw(before map[string]bool) map[string]bool {
	w.Helper()
	const list = "find /sys/fs/cgroup/freezer/kubepods.slice -name freezer.state -exec grep -l FROZEN {} + " +
		"2>/dev/null || true"
	now := map[string]bool{}
	for _, m := range w.machines {
		for path := range strings.Lines(w.on(m, list)) {
			path = strings.TrimSpace(path)
			if now[m.Name+path] = true; before[m.Name+path] {
				w.Logf("thawing a container on %s that runc left frozen: %s", m.Name, path)
				w.on(m, "echo THAWED > "+path+" || true")
			}
		}
	}
	return now
}

// converged waits until everything is as it should be, and returns how long each part took.
func (w *world) converged(pods int, before string) string {
	w.Helper()
	var said []string
	frozen := map[string]bool{}
	until := func(what string, condition func() (bool, string)) {
		w.Helper()
		began := time.Now()
		w.until(what, func() (bool, string) {
			frozen = w.thaw(frozen)
			return condition()
		})
		said = append(said, fmt.Sprintf("%.1f s until %s", time.Since(began).Seconds(), what))
	}
	until("all services run", func() (bool, string) {
		for _, m := range w.machines {
			if out := w.on(m, "systemctl is-active capstan-agent kubelet containerd || true"); out !=
				"active\nactive\nactive\n" {
				return false, m.Name + ": " + out
			}
		}
		return true, ""
	})
	until("all Nodes are Ready, and exactly the requested pods run", func() (bool, string) {
		text := w.kubectl("get", "pods", "-l", "app=restless", "--no-headers")
		nodes := w.nodes()
		return len(nodes) == 3 && strings.Count(text, "1/1") == pods && strings.Count(text, "\n") == pods, text
	})
	until("no container is left over", func() (bool, string) {
		text := ""
		for _, m := range w.machines {
			text += w.on(m, containersOf(pods == 0))
		}
		return strings.Count(text, "\n") == len(w.machines)+pods, text
	})
	until("hosts, machines, Nodes and containers are those from before the kills", func() (bool, string) {
		if free, text := w.free(); free != 0 || strings.Contains(text, "Offline") {
			return false, text
		}
		now := w.lasting()
		return now == before, now + "\nwant\n" + before
	})
	return strings.Join(said, ", ")
}
