package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// webServer has a web server on each worker, a Service for these servers, and a pod from which the test sends requests.
const webServer = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: "web.test/web:1", args: [serve], readinessProbe: {httpGet: {port: 80}}}
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

// makeWebImage builds the image web.test/web:1 from hack/web for all hosts.
func makeWebImage(t *testing.T) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "web")
	build := exec.Command("go", "build", "-o", program, "../../hack/web")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the program of the image: %v: %s", err, out)
	}
	must(t, "image", "build", "web.test/web:1", program)
}

// TestServicesByName: in a cluster with real pods and without a registry, a pod finds a Service by its name and gets
// answers from its own Node and from another one, and kubectl top shows figures.
func TestServicesByName(t *testing.T) {
	dir := t.TempDir()
	makeWebImage(t)
	must(t, "cluster", "create", "named", "--control-plane", "1", "--workers", "2")
	kubectl := func(args ...string) (string, error) {
		out, text, err := try(t, append([]string{"kubectl", "--cluster", "named"}, args...)...)
		if err != nil {
			err = fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, text)
		}
		return out, err
	}
	manifest := filepath.Join(dir, "web.yaml")
	if err := os.WriteFile(manifest, []byte(webServer), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"apply", "-f", manifest},
		{"-n", "kube-system", "wait", "--for=condition=Available", "deployment/coredns", "--timeout=120s"},
		{"rollout", "status", "daemonset/web", "--timeout=120s"},
		{"rollout", "status", "deployment/ask", "--timeout=120s"},
	} {
		if _, err := kubectl(args...); err != nil {
			pods, _ := kubectl("get", "pods", "-A", "-o", "wide")
			t.Fatalf("%v\n%s", err, pods)
		}
	}
	pods, err := kubectl("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].metadata.name}")
	if err != nil || len(strings.Fields(pods)) != 2 {
		t.Fatalf("the web servers are %q, %v; want one on each worker", pods, err)
	}
	answered := map[string]bool{}
	within(t, time.Minute, "each web server answers", func() error {
		out, err := kubectl("exec", "deployment/ask", "--", "/web", "get", "http://web.default.svc.cluster.local/")
		if err != nil {
			return err
		}
		answered[strings.TrimSpace(out)] = true
		for _, pod := range strings.Fields(pods) {
			if !answered[pod] {
				return fmt.Errorf("pod %s has not answered", pod)
			}
		}
		return nil
	})
	for what, pod := range map[string]string{"nodes": "named-cp-", "pods": "web-"} { // works without an add-on
		within(t, 2*time.Minute, "kubectl top "+what, func() error {
			out, err := kubectl("top", what, "--no-headers")
			if err == nil && (!strings.Contains("\n"+out, "\n"+pod) || strings.Contains(out, "unknown")) {
				err = fmt.Errorf("kubectl top %s prints %q", what, out)
			}
			return err
		})
	}
	must(t, "cluster", "delete", "named")
}
