package e2e

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// killedPods are pods that must survive kills. The pods of "kept" stay the same until the end. Those of "churn" and
// "port" are deleted at random, so that pods come and go during kills.
const killedPods = `
apiVersion: v1
kind: Service
metadata: {name: kept}
spec: {selector: {app: kept}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: each}
spec: {selector: {app: kept}, clusterIP: None, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: kept}
spec:
  replicas: 3
  serviceName: each
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: kept}}
  template:
    metadata: {labels: {app: kept}}
    spec:
      terminationGracePeriodSeconds: 1
      volumes: [{name: data, emptyDir: {}}, {name: memory, emptyDir: {medium: Memory}}]
      containers:
      - name: main
        image: kills.test/counted:1
        args: [serve, /data]
        volumeMounts: [{name: data, mountPath: /data}, {name: memory, mountPath: /memory}]
        readinessProbe: {httpGet: {port: 80}, periodSeconds: 1}
      - {name: other, image: "kills.test/counted:1", args: [wait]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: churn}
spec:
  replicas: 3
  selector: {matchLabels: {app: churn}}
  template:
    metadata: {labels: {app: churn, deleted: often}}
    spec:
      terminationGracePeriodSeconds: 1
      shareProcessNamespace: true
      volumes: [{name: data, emptyDir: {}}]
      containers:
      - name: main
        image: kills.test/counted:1
        args: [serve, /data]
        volumeMounts: [{name: data, mountPath: /data}]
        readinessProbe: {httpGet: {port: 80}, periodSeconds: 1}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: port}
spec:
  replicas: 1
  strategy: {type: Recreate}
  selector: {matchLabels: {app: port}}
  template:
    metadata: {labels: {app: port, deleted: often}}
    spec:
      terminationGracePeriodSeconds: 1
      volumes: [{name: data, emptyDir: {}}]
      containers:
      - name: main
        image: kills.test/counted:1
        args: [serve, /data]
        ports: [{containerPort: 80, hostPort: 18300}]
        volumeMounts: [{name: data, mountPath: /data}]
`

const (
	killedCluster = "killed"
	keptPods      = 3 // of StatefulSet "kept"
	workloadPods  = keptPods + 3 + 1
	killLimit     = 4 * time.Minute // to recover from one kill
	spare         = 2 * time.Minute // to report and to clean up before the time limit of the tests
)

// TestRealPodsSurviveKillsOfTheDock kills the processes of the dock and of the plane while pods come and go: at random
// times, and at named points in the life of a pod. After each kill, all pods must run again, and must be the same pods
// unless something deleted them. Each container must run exactly once. It must have been restarted once if its host
// stopped. The kernel must have as many objects as before. CAPSTAN_TEST_DOCK_KILLS sets the number of kills;
// CAPSTAN_TEST_SEED repeats a run (make test-dock-kills).
func TestRealPodsSurviveKillsOfTheDock(t *testing.T) {
	kills, _ := strconv.Atoi(os.Getenv("CAPSTAN_TEST_DOCK_KILLS"))
	if kills == 0 {
		t.Skip("takes long: make test-dock-kills runs it")
	}
	k := newPodKills(t)
	var done []string
	for i := range kills {
		if end, is := t.Deadline(); is && time.Until(end) < spare {
			t.Errorf("there was only time for %d of %d kills", i, kills)
			break
		}
		b := k.choose()
		began := time.Now()
		allowed := k.strike(t, b)
		k.recovers(t, fmt.Sprintf("kill %d of %d, of %s", i+1, kills, b), allowed)
		t.Logf("kill %d of %d, of %s: all is back after %s", i+1, kills, b, time.Since(began).Round(100*time.Millisecond))
		done = append(done, b.String())
	}
	counts := map[string]int{}
	for _, b := range done {
		counts[b]++
	}
	for _, b := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%3d %s", counts[b], b)
	}
	k.forgotten(t)
	must(t, "cluster", "delete", killedCluster)
	vanishes(t, killedCluster)
}

// podKills is a cluster whose pods must survive.
type podKills struct {
	config *rest.Config
	client kubernetes.Interface
	random *rand.Rand
	hosts  []string
	before census
	kept   map[string]keptContainer // by pod/container
}

// newPodKills creates the cluster and waits until its pods run.
func newPodKills(t *testing.T) *podKills {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("CAPSTAN_TEST_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("repeat it with CAPSTAN_TEST_SEED=%d", seed)
	k := &podKills{random: rand.New(rand.NewPCG(seed, 2))}

	dir := t.TempDir()
	program := filepath.Join(dir, "counted")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", program, "./testdata/counted")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the program of the image: %v: %s", err, out)
	}
	must(t, "image", "build", "kills.test/counted:1", program)
	must(t, "cluster", "create", killedCluster, "--control-plane", "1", "--workers", "2")
	for _, h := range claimed(t, killedCluster) {
		k.hosts = append(k.hosts, h.Name)
	}
	k.connect(t)
	manifest := filepath.Join(dir, "pods.yaml")
	if err := os.WriteFile(manifest, []byte(killedPods), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"apply", "-f", manifest},
		{"-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=120s"},
		{"-n", "kube-system", "rollout", "status", "deployment/metrics-api", "--timeout=120s"},
	} {
		must(t, append([]string{"kubectl", "--cluster", killedCluster}, args...)...)
	}
	k.recovers(t, "the start", nil)
	return k
}

// recovers waits until everything is as it was before a kill. allowed says how often each container of the kept pods
// may have been restarted since; containers that it does not name must not have been restarted.
func (k *podKills) recovers(t *testing.T, what string, allowed map[string]restarts) {
	t.Helper()
	var pods []corev1.Pod
	within(t, killLimit, what, func() (err error) {
		if pods, err = k.pods(t); err == nil {
			err = k.settled(t, pods, allowed)
		}
		return err
	})
	k.kept = keptOf(pods)
}

// settled returns an error unless the plane, the pods and the hosts are in the state for which the
// method recovers waits.
func (k *podKills) settled(t *testing.T, pods []corev1.Pod, allowed map[string]restarts) error {
	if err := errors.Join(planeAnswers(t), allReady(pods)); err != nil {
		return err
	}
	if err := oneSupervisorEach(pods); err != nil {
		return err
	}
	now := keptOf(pods)
	for name, was := range k.kept {
		if err := now[name].follows(was, allowed[name]); err != nil {
			return fmt.Errorf("container %s: %w", name, err)
		}
	}
	if err := k.answers(t, pods); err != nil {
		return err
	}
	found, err := takeCensus(k.hosts)
	if err != nil {
		return err
	}
	if k.before == nil {
		k.before = found
	}
	if text := found.differs(k.before); text != "" {
		return errors.New(text)
	}
	return nil
}

// allReady returns an error unless the number of pods is right and every container is Ready.
func allReady(pods []corev1.Pod) error {
	workload := 0
	for _, p := range pods {
		if p.DeletionTimestamp != nil {
			return fmt.Errorf("pod %s is still being deleted", p.Name)
		}
		if p.Namespace == "default" {
			workload++
		}
		if len(p.Status.ContainerStatuses) == 0 {
			return fmt.Errorf("pod %s has no containers yet", p.Name)
		}
		for _, c := range p.Status.ContainerStatuses {
			if !c.Ready {
				return fmt.Errorf("container %s of pod %s is not Ready", c.Name, p.Name)
			}
		}
	}
	if workload != workloadPods {
		return fmt.Errorf("there are %d pods, want %d", workload, workloadPods)
	}
	return nil
}

// oneSupervisorEach returns an error unless each container in the API has exactly one supervisor, each shared PID
// namespace has one, and there are no others.
func oneSupervisorEach(pods []corev1.Pod) error {
	supervisors := map[string]int{}
	for _, p := range processes() {
		if p.name() == "capstan-run" && len(p.args) == 3 && p.args[1] == "container" {
			_, record, _ := strings.Cut(p.args[2], "/cri/") // containers/ID or pods/ID/pause
			supervisors[record]++
		}
	}
	shared := 0
	for _, p := range pods {
		if static(p) {
			continue
		}
		if p.Spec.ShareProcessNamespace != nil {
			shared++
		}
		for _, c := range p.Status.ContainerStatuses {
			record := "containers/" + strings.TrimPrefix(c.ContainerID, "capstan://")
			if n := supervisors[record]; n != 1 {
				return fmt.Errorf("container %s of pod %s has %d supervisors", c.Name, p.Name, n)
			}
			delete(supervisors, record)
		}
	}
	for record, n := range supervisors {
		if !strings.HasSuffix(record, "/pause") || n > 1 {
			return fmt.Errorf("%d supervisors of %s run, which is not what the pods need", n, record)
		}
	}
	if len(supervisors) != shared {
		return fmt.Errorf("%d shared PID namespaces are held, want %d", len(supervisors), shared)
	}
	return nil
}

// keptContainer is a container of a pod that nothing deletes.
type keptContainer struct {
	uid, node, id string
	restarted     int
	starts        []string // the starts that its program has recorded; nil if it records none
}

// keptOf returns the containers of the kept pods by POD/CONTAINER.
func keptOf(pods []corev1.Pod) map[string]keptContainer {
	kept := map[string]keptContainer{}
	for _, p := range pods {
		if p.Labels["app"] != "kept" {
			continue
		}
		for _, c := range p.Status.ContainerStatuses {
			k := keptContainer{uid: string(p.UID), node: p.Spec.NodeName, id: c.ContainerID, restarted: int(c.RestartCount)}
			if c.Name == "main" {
				k.starts = startsOf(string(p.UID))
			}
			kept[p.Name+"/"+c.Name] = k
		}
	}
	return kept
}

// startsOf returns the lines that the program of a pod has written to its volume.
func startsOf(uid string) []string {
	files, _ := filepath.Glob(filepath.Join(homeDir, "dock/hosts/*/root/var/lib/kubelet/pods", uid,
		"volumes/kubernetes.io~empty-dir/data/starts"))
	starts := []string{}
	for _, file := range files {
		data, _ := os.ReadFile(file)
		starts = append(starts, strings.Fields(string(data))...)
	}
	return starts
}

// restarts is how often a container may have been restarted.
type restarts struct{ atLeast, atMost int }

// follows returns an error unless a container is the same as before a kill, and was restarted as often as allowed.
func (k keptContainer) follows(was keptContainer, allowed restarts) error {
	if k.uid != was.uid || k.node != was.node {
		return fmt.Errorf("it belongs to pod %s on %s, and belonged to pod %s on %s", k.uid, k.node, was.uid, was.node)
	}
	if n := k.restarted - was.restarted; n < allowed.atLeast || n > allowed.atMost {
		return fmt.Errorf("it was restarted %d times, want %+v", n, allowed)
	}
	if same := k.id == was.id; same != (allowed.atMost == 0) {
		return fmt.Errorf("its id is %s, and was %s; allowed restarts: %+v", k.id, was.id, allowed)
	}
	if was.starts == nil {
		return nil
	}
	if n := len(k.starts) - len(was.starts); n < allowed.atLeast || n > allowed.atMost {
		return fmt.Errorf("its program was started %d times, want %+v: %v", n, allowed, k.starts)
	}
	if slices.Contains(k.starts, "twice") {
		return fmt.Errorf("two instances of its program ran at the same time: %v", k.starts)
	}
	return nil
}

// forgotten waits until the hosts have dropped the records and directories of everything that is gone. For each running
// pod, the kubelet keeps the last sandbox that stopped, and the last instance of each container that exited.
func (k *podKills) forgotten(t *testing.T) {
	t.Helper()
	within(t, killLimit, "the hosts have dropped what belongs to deleted pods", func() error {
		pods, err := k.pods(t)
		if err != nil {
			return err
		}
		containers := 0
		for _, p := range pods {
			containers += len(p.Status.ContainerStatuses)
		}
		for what, most := range map[string]int{
			"cri/sandboxes/*": 2 * len(pods), "cri/pods/*": len(pods), "cri/containers/*": 2 * containers,
			"kubelet/pods/*": len(pods),
		} {
			found := 0
			for _, host := range k.hosts {
				for _, base := range []string{"var/lib/capstan", "var/lib"} {
					all, err := filepath.Glob(filepath.Join(homeDir, "dock/hosts", host, "root", base, what))
					if err != nil {
						return err
					}
					found += len(all)
				}
			}
			if found > most {
				return fmt.Errorf("hosts have %d of %s, want at most %d for %d pods with %d containers", found, what, most,
					len(pods), containers)
			}
		}
		return nil
	})
}
