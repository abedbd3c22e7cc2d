package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/test/long"
)

// TestLifecycleExtensions uses the plane's own extension on a real cluster: an add-on exists as soon as the cluster
// does, verification finds no problem, drift is corrected, an upgrade waits for its window, and objects that no add-on
// contains any more are removed.
func TestLifecycleExtensions(t *testing.T) {
	long.Need(t)
	const name = "lifecycle"
	manifest := filepath.Join(t.TempDir(), "add-on.yaml")
	if err := os.WriteFile(manifest, []byte(`apiVersion: v1
kind: ConfigMap
metadata:
  name: e2e-greeting
  labels: {addons.capstan.dev/add-on: greeting}
  annotations: {addons.capstan.dev/cluster-selector: cluster.x-k8s.io/cluster-name=lifecycle}
data:
  manifest.yaml: |
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: greeting, namespace: greetings}
    data: {text: hello}
    ---
    apiVersion: v1
    kind: Namespace
    metadata: {name: greetings}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, "kubectl", "apply", "-f", manifest)
	deleted := false
	t.Cleanup(func() {
		if !deleted {
			_, _, _ = try(t, "kubectl", "delete", "configmap", "e2e-greeting")
		}
	})
	greeting := func() string {
		return must(t, "kubectl", "--cluster", name, "-n", "greetings", "get", "configmap", "greeting", "--ignore-not-found",
			"-o", "jsonpath={.data.text}")
	}
	call := func(hook string, wants ...string) {
		t.Helper()
		out := must(t, "hook", "call", hook, "--cluster", name)
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("%s does not say %q:\n%s", hook, want, out)
			}
		}
	}
	must(t, "cluster", "create", name, "--workers", "1")
	if got := greeting(); got != "hello" {
		t.Errorf("the add-on says %q, want hello", got)
	}
	if timeline := must(t, "hook", "timeline", name); !strings.Contains(timeline, "add-ons: 2 applied") {
		t.Errorf("the timeline does not say that add-ons were applied:\n%s", timeline)
	}
	call("AfterClusterUpgrade", "verified: API server, control plane, add-ons, and 2 of the Cluster's Nodes")
	call("BeforeControlPlaneUpgrade", "upgrade of the control plane needs 1 host")

	must(t, "kubectl", "--cluster", name, "-n", "greetings", "patch", "configmap", "greeting", "--type", "merge", "-p",
		`{"data":{"text":"changed"}}`)
	call("AfterControlPlaneUpgrade", "1 changed since they were applied, and corrected: ConfigMap greetings/greeting",
		"verified: ")
	if got := greeting(); got != "hello" {
		t.Errorf("the add-on says %q after its drift, want hello", got)
	}
	if events := must(t, "kubectl", "get", "events", "--field-selector",
		"reason=AddOnDrift,involvedObject.name="+name); !strings.Contains(events, "ConfigMap greetings/greeting") {
		t.Errorf("no Event reports the drift:\n%s", events)
	}

	day := time.Now().UTC().AddDate(0, 0, 3).Format("Mon")
	must(t, "kubectl", "annotate", "cluster", name, "extensions.capstan.dev/maintenance-windows="+day+" 12:00 1m UTC")
	call("BeforeClusterUpgrade", "the upgrade to ", "the next one opens "+day+" ")
	must(t, "kubectl", "label", "cluster", name, "extensions.capstan.dev/maintenance-window=disabled")
	if out := must(t, "hook", "call", "BeforeClusterUpgrade", "--cluster", name); strings.Contains(out,
		"the next one opens") {
		t.Errorf("the part maintenance-window is switched off, but the upgrade waits:\n%s", out)
	}

	// If a namespace has no add-ons, nothing is removed from clusters; if an add-on is empty, its objects are removed.
	must(t, "kubectl", "delete", "configmap", "e2e-greeting")
	deleted = true
	call("AfterClusterUpgrade", "so what was applied stays: Namespace greetings, ConfigMap greetings/greeting")
	if got := greeting(); got != "hello" {
		t.Errorf("want the add-on kept when the namespace has no add-ons, but it says %q", got)
	}
	must(t, "kubectl", "create", "configmap", "e2e-greeting")
	deleted = false
	must(t, "kubectl", "label", "configmap", "e2e-greeting", "addons.capstan.dev/add-on=greeting")
	call("AfterClusterUpgrade", "add-ons: 1 removed, no longer wanted but left: Namespace greetings")
	if got := greeting(); got != "" {
		t.Errorf("the add-on is empty, but its object says %q", got)
	}
	must(t, "cluster", "delete", name)
	vanishes(t, name)
}
