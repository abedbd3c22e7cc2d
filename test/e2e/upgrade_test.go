package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/test/long"
)

// guarded is a web server of which one pod must always be available, and a pod from which to send requests.
const guarded = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway,
         labelSelector: {matchLabels: {app: web}}}
      containers:
      - {name: web, image: "web.test/web:1", args: [serve], readinessProbe: {httpGet: {port: 80}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: ask}
spec:
  selector: {matchLabels: {app: ask}}
  template:
    metadata: {labels: {app: ask}}
    spec:
      containers: [{name: ask, image: "web.test/web:1", args: [wait]}]
`

// TestUpgrade takes a cluster from the previous minor release to the current one; going back is refused. A web server
// with a disruption budget stays available while its Nodes are replaced, and then answers by name.
func TestUpgrade(t *testing.T) {
	long.Need(t) // TestHooksOfAnUpgrade upgrades a cluster in each run
	from, to := twoVersions(t)
	const name = "upgrade"
	makeWebImage(t)
	must(t, "cluster", "create", name, "--workers", "2", "--kubernetes-version", from)
	versions := func() (all []string) {
		for _, n := range decode[objectList](t, "kubectl", "--cluster", name, "get", "nodes").Items {
			all = append(all, n.Status.NodeInfo.KubeletVersion)
		}
		return all
	}
	if got := versions(); !slices.Equal(got, []string{from, from, from}) {
		t.Errorf("kubelets are %v, want three of %s", got, from)
	}
	manifest := filepath.Join(t.TempDir(), "web.yaml")
	if err := os.WriteFile(manifest, []byte(guarded), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, "kubectl", "--cluster", name, "apply", "-f", manifest)
	must(t, "kubectl", "--cluster", name, "rollout", "status", "deployment/web", "--timeout=120s")
	watched := watchAvailable(t, name)
	must(t, "cluster", "upgrade", name, "--kubernetes-version", to)
	if seen, least := watched(); seen < 10 || least < 1 {
		t.Errorf("%d checks succeeded, and found at least %d web servers available; want at least 10 and 1",
			seen, least)
	}
	within(t, 2*time.Minute, "a web server answers by name on the new Nodes", func() error {
		_, text, err := try(t, "kubectl", "--cluster", name, "exec", "deployment/ask", "--", "/web", "get",
			"http://web.default.svc.cluster.local/")
		if err != nil {
			err = fmt.Errorf("%w: %s", err, text)
		}
		return err
	})
	readyNodes(t, name)
	if got := versions(); !slices.Equal(got, []string{to, to, to}) {
		t.Errorf("kubelets are %v, want three of %s", got, to)
	}
	timeline := must(t, "hook", "timeline", name)
	for _, hook := range []string{"BeforeClusterUpgrade", "BeforeControlPlaneUpgrade", "AfterControlPlaneUpgrade",
		"BeforeWorkersUpgrade", "AfterWorkersUpgrade", "AfterClusterUpgrade"} {
		if !strings.Contains(timeline, hook) {
			t.Errorf("timeline has no %s:\n%s", hook, timeline)
		}
	}
	mustFail(t, "does not go back", "cluster", "upgrade", name, "--kubernetes-version", from)
	must(t, "cluster", "delete", name)
	vanishes(t, name)
}

// watchAvailable checks the web server each second until the returned function is called. That function returns how
// many checks succeeded, and the lowest number of available pods. While the only control plane is replaced, checks
// fail.
func watchAvailable(t *testing.T, cluster string) func() (seen, least int) {
	t.Helper()
	stop, done := make(chan struct{}), make(chan struct{})
	seen, least := 0, 2
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			out, _, err := try(t, "kubectl", "--cluster", cluster, "get", "deployment", "web", "--request-timeout=5s",
				"--output", "jsonpath={.status.availableReplicas}")
			if err == nil {
				available, _ := strconv.Atoi(out) // absent means none
				seen, least = seen+1, min(least, available)
			}
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	}()
	return func() (int, int) {
		close(stop)
		<-done
		return seen, least
	}
}
