package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/test/long"
)

// TestUpgradeWithAllExtensions: a cluster of three control planes and two workers goes from one Kubernetes minor to the
// next with all of the plane's own extensions on: hosts are counted, a window is open, a backup is taken first, add-ons
// change with the version, and everything is verified. The test prints the timeline and how long the upgrade took. On
// two processors, that should be five minutes at most, and ideally three. The test doesn't enforce this, because the
// time means nothing on a machine with other work.
func TestUpgradeWithAllExtensions(t *testing.T) {
	long.Need(t)
	const name = "big"
	from, to := twoVersions(t)
	addOn := func(versions, text string) string {
		return fmt.Sprintf(`apiVersion: v1
kind: ConfigMap
metadata:
  name: big-greeting-%s
  labels: {addons.capstan.dev/add-on: big-greeting}
  annotations: {addons.capstan.dev/cluster-selector: cluster.x-k8s.io/cluster-name=%s, addons.capstan.dev/kubernetes-versions: "%s"}
data:
  manifest.yaml: |
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: greeting, namespace: kube-system}
    data: {text: %s}
`, text, name, versions, text)
	}
	minor := to[1:strings.LastIndex(to, ".")]
	apply(t, addOn("<"+minor, "before")+"---\n"+addOn(">="+minor, "after"))
	t.Cleanup(func() {
		for _, args := range [][]string{{"kubectl", "delete", "cluster", name, "--ignore-not-found"},
			{"kubectl", "delete", "configmap", "big-greeting-before", "big-greeting-after"}} {
			if out, err := command(context.Background(), args...).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		}
	})
	must(t, "cluster", "create", name, "--control-plane", "3", "--workers", "2", "--kubernetes-version", from,
		"--wait=false")
	must(t, "kubectl", "annotate", "cluster", name, "extensions.capstan.dev/maintenance-windows=daily 00:00 24h UTC")
	kubelets := func(want string) error {
		out, stderr, err := try(t, "kubectl", "--cluster", name, "get", "nodes", "-o",
			`jsonpath={range .items[*]}{.status.nodeInfo.kubeletVersion} {.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}`)
		if err != nil {
			return fmt.Errorf("%w %s", err, stderr)
		}
		if lines := strings.Split(strings.TrimSpace(out), "\n"); !slices.Equal(lines,
			slices.Repeat([]string{want + " True"}, 5)) {
			return fmt.Errorf("nodes are %q", lines)
		}
		return nil
	}
	within(t, 2*upgradeLimit, "five nodes of "+from, func() error { return kubelets(from) })
	eventually(t, "the topology is reconciled, and no hook is pending", func() error { return reconciled(t, name) })
	greeting := func() string {
		return must(t, "kubectl", "--cluster", name, "-n", "kube-system", "get", "configmap", "greeting",
			"--ignore-not-found", "-o", "jsonpath={.data.text}")
	}
	if got := greeting(); got != "before" {
		t.Errorf("the add-on says %q, want before; the timeline is\n%s", got, must(t, "hook", "timeline", name))
	}
	made := machinesOf(t, name)

	start := time.Now()
	must(t, "cluster", "upgrade", name, "--kubernetes-version", to, "--wait=false")
	within(t, 4*upgradeLimit, "five nodes of "+to, func() error { return kubelets(to) })
	within(t, upgradeLimit, "the topology is reconciled, and no hook is pending",
		func() error { return reconciled(t, name) })
	took := time.Since(start).Round(100 * time.Millisecond)
	load, _ := os.ReadFile("/proc/loadavg")
	timeline := must(t, "hook", "timeline", name)
	t.Logf("from %s to %s, 3 + 2, all extensions on: %s (load average %s)\n%s", from, to, took,
		strings.TrimSpace(string(load)), timeline)

	readyNodes(t, name)
	if got := greeting(); got != "after" {
		t.Errorf("the add-on says %q, want after", got)
	}
	if got := made(); got["control plane "+to] != 3 || got["md-0 "+to] != 2 || len(got) != 4 {
		t.Errorf("these Machines were made: %v; want 3 + 2 of the new version", got)
	}
	for _, want := range []string{"capacity-control-plane", "capacity-workers", "window-upgrade", "window-control-plane",
		"window-workers", "add-ons-control-plane", "backup-upgrade", "verification-control-plane", "verification-upgrade",
		"verified: API server, control plane"} {
		if !strings.Contains(timeline, want) {
			t.Errorf("the timeline has no %s", want)
		}
	}
	if backups := must(t, "backup", "list", name); !strings.Contains(backups, from) {
		t.Errorf("no backup has the version from before the upgrade:\n%s", backups)
	}
	must(t, "cluster", "delete", name)
	vanishes(t, name)
}

// reconciled returns an error unless the topology of a cluster is reconciled and no hook is left to call.
func reconciled(t *testing.T, cluster string) error {
	out := must(t, "kubectl", "get", "cluster", cluster, "-o",
		`jsonpath={.status.conditions[?(@.type=='TopologyReconciled')].status} {.metadata.annotations.runtime\.cluster\.x-k8s\.io/pending-hooks} {.status.conditions[?(@.type=='TopologyReconciled')].message}`)
	if strings.TrimSpace(out) != "True" {
		return fmt.Errorf("status of TopologyReconciled, pending hooks, and the message: %s", out)
	}
	return nil
}
