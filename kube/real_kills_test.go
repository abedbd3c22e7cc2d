//go:build linux

package kube_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/kube/run"
)

// killed are the pods that must survive kills: four of a Deployment with two containers each, and one with a host port.
const killed = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: killed}
spec:
  replicas: 4
  selector: {matchLabels: {app: killed}}
  template:
    metadata: {labels: {app: killed}}
    spec:
      terminationGracePeriodSeconds: 1
      volumes: [{name: memory, emptyDir: {medium: Memory}}, {name: disk, emptyDir: {}}]
      containers:
      - name: main
        image: registry.example/pod:1
        args: ["tcp=:80"]
        volumeMounts: [{name: memory, mountPath: /memory}, {name: disk, mountPath: /disk}]
        readinessProbe: {tcpSocket: {port: 80}, periodSeconds: 1}
      - {name: other, image: registry.example/pod:1, args: [wait]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: port}
spec:
  replicas: 1
  strategy: {type: Recreate}
  selector: {matchLabels: {app: port}}
  template:
    metadata: {labels: {app: port}}
    spec:
      terminationGracePeriodSeconds: 1
      shareProcessNamespace: true
      containers:
      - {name: main, image: registry.example/pod:1, args: ["http=:80"], ports: [{containerPort: 80, hostPort: 18300}]}
`

// killedConfig shortens the kubelet's delay before it restarts a container.
const killedConfig = realConfig + `---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
crashLoopBackOff: {maxContainerRestartPeriod: 2s}
`

const (
	// containers is the number of containers in all pods of killed.
	containers = 4*2 + 1
	// killLimit bounds how long pods may take to recover.
	killLimit = 3 * time.Minute
)

// TestPodsSurviveKills kills parts of the host at random points while pods are created and deleted: CRI server,
// kubelet, supervisors, programs, the whole host. After each kill, all pods must run again, no container twice, and the
// host must have as many processes, mounts, links, routes and rules as before. CAPSTAN_TEST_KILLS sets the number of
// kills (make test-pod-kills).
func TestPodsSurviveKills(t *testing.T) {
	kills, _ := strconv.Atoi(os.Getenv("CAPSTAN_TEST_KILLS"))
	if kills == 0 {
		t.Skip("takes long: make test-pod-kills runs it")
	}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("CAPSTAN_TEST_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("repeat it with CAPSTAN_TEST_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 1))

	bundles, version := bundle(t)
	h := newWorld(t, bundles, version).host("node", 11)
	serveImages(t, h)
	h.write("/root/init.yaml", fmt.Sprintf(killedConfig, version))
	h.kubeadm("init", "--config", "/root/init.yaml", "--skip-phases=addon")
	waitFor(t, nodeLimit, "the Node", func() error { return nodeReady(h, "node") })
	h.write("/root/killed.yaml", killed)
	h.must("kubectl", "apply", "-f", "/root/killed.yaml")
	waitFor(t, killLimit, "the pods", func() error { return settled(h, nil) })
	before, err := census(h)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("before: %v", before)
	counts := map[string]int{}
	for i := range kills {
		// In most rounds a pod is starting or stopping during the kill.
		if random.IntN(4) > 0 {
			h.must("kubectl", "delete", "pod", "--wait=false", somePod(t, h, random))
		}
		time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond) // the random point
		victim := killOne(t, h, random)
		counts[victim]++
		begin := time.Now()
		waitFor(t, killLimit, fmt.Sprintf("the pods after kill %d, of %s", i+1, victim), func() error {
			return settled(h, before)
		})
		t.Logf("kill %d, of %s: settled in %s", i+1, victim, time.Since(begin).Round(10*time.Millisecond))
	}
	t.Logf("%d kills: %v", kills, counts)
	waitFor(t, killLimit, "removal of the directories of deleted pods", func() error {
		for _, pattern := range []string{"var/lib/kubelet/pods/*", "var/lib/capstan/cri/pods/*"} {
			const static = 4
			if left, _ := filepath.Glob(filepath.Join(h.root, pattern)); len(left) > 5+static {
				return fmt.Errorf("there are %d of %s, want %d", len(left), pattern, 5+static)
			}
		}
		return nil
	})
}

// somePod returns the name of one of the running pods.
func somePod(t *testing.T, h *host, random *rand.Rand) string {
	t.Helper()
	names := strings.Fields(h.must("kubectl", "get", "pods", "-o", "name"))
	if len(names) == 0 {
		t.Fatal("there are no pods")
	}
	return strings.TrimPrefix(names[random.IntN(len(names))], "pod/")
}

// killOne kills something on the host and returns what it killed.
func killOne(t *testing.T, h *host, random *rand.Rand) string {
	t.Helper()
	victims := []string{"cri", "kubelet", "capstan-run", "capstan-run", "program", "program", "cri and kubelet", "host"}
	victim := victims[random.IntN(len(victims))]
	var pids []int
	one := func(of []int) {
		if len(of) > 0 {
			pids = append(pids, of[random.IntN(len(of))])
		}
	}
	switch victim {
	case "host":
		h.reboot()
		return victim
	case "program":
		one(programsOf(t, h))
	case "cri and kubelet":
		pids = append(named(h, "cri"), named(h, "kubelet")...)
	default:
		one(named(h, victim))
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
	}
	if len(pids) == 0 {
		return "nothing: no " + victim + " runs"
	}
	return victim
}

// named returns the process ids, in the test's namespace, of the host's processes with a name.
func named(h *host, name string) (pids []int) {
	for pid, other := range h.processes() {
		if other == name {
			pids = append(pids, pid)
		}
	}
	return pids
}

// programsOf returns the process ids, in the test's namespace, of the containers' first processes.
func programsOf(t *testing.T, h *host) (pids []int) {
	t.Helper()
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		exe, _ := os.Readlink(entry + "/exe")
		pid, _ := strconv.Atoi(filepath.Base(entry))
		if exe == "/pod" && h.hosts(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// hosts reports whether a process descends from the host's PID 1.
func (h *host) hosts(pid int) bool {
	for pid > 1 && pid != h.pid {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return false
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		pid, _ = strconv.Atoi(fields[1])
	}
	return pid == h.pid
}

// settled returns an error until each container of the pods is Ready and has a process, and the census of the host is
// as before.
func settled(h *host, before map[string]int) error {
	if _, err := h.try("kubectl", "get", "--raw", "/readyz"); err != nil {
		return err
	}
	list, err := pods(h)
	if err != nil {
		return err
	}
	ready, all := 0, 0
	for _, p := range list.Items {
		if p.Metadata.Annotations["kubernetes.io/config.mirror"] != "" {
			continue // a component
		}
		all++
		for _, c := range p.Status.ContainerStatuses {
			id := strings.TrimPrefix(c.ContainerID, "capstan://")
			_, ok, err := run.ReadRunning(filepath.Join(h.root, "var/lib/capstan/cri/containers", id))
			if !c.Ready || !ok {
				return fmt.Errorf("container %s of %s: ready %v, has a process %v, %v", c.Name, p.Metadata.Name, c.Ready, ok, err)
			}
			ready++
		}
	}
	if all != 5 || ready != containers {
		return fmt.Errorf("%d pods run with %d Ready containers, want 5 with %d", all, ready, containers)
	}
	if answer, err := h.get("http://127.0.0.1:18300/"); err != nil {
		return err
	} else if answer != "answer\n" {
		return fmt.Errorf("the pod answers %q at its host port", answer)
	}
	now, err := census(h)
	if err == nil && before != nil && !maps.Equal(now, before) {
		err = fmt.Errorf("the census of the host is %v, and was %v", now, before)
	}
	return err
}

// census counts what pods create on a host.
func census(h *host) (map[string]int, error) {
	found := map[string]int{}
	for _, name := range h.processes() {
		if name == "capstan-run" || name == "cri" || name == "kubelet" {
			found["process "+name]++
		}
	}
	running, err := programs(h)
	if err != nil {
		return nil, err
	}
	found["program"] = running
	mounts, err := h.try("cat", "/proc/1/mountinfo")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(mounts) {
		kind, _, _ := strings.Cut(line[strings.Index(line, " - ")+3:], " ")
		found["mount "+kind]++
	}
	lines, err := h.self(dumpVariable + "=1")
	for line := range strings.Lines(lines) {
		words := strings.Fields(line)
		switch words[0] {
		case "link": // count by kind, because names differ from pod to pod
			found["link "+words[len(words)-1]]++
		case "packet":
			found[strings.TrimSpace(line)]++
		default:
			found[words[0]]++
		}
	}
	return found, err
}
