//go:build linux

package kube_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// burner is a pod that uses a whole processor if it gets one.
const burner = `
apiVersion: v1
kind: Pod
metadata: {name: burner, labels: {app: burner}}
spec:
  nodeName: two
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: "registry.example/pod:1", args: [burn]}]
`

// top installs the metrics API and checks what "kubectl top" reports about the burner pod on Node two, about an idle
// pod next to it, and about the Nodes.
func top(t *testing.T, h *host, idle string) {
	t.Helper()
	h.write("/root/burner.yaml", burner)
	h.must("kubectl", "apply", "-f", "/root/burner.yaml")
	h.must("/bin/sh", "-c", "$(readlink /usr/local/bin/kubectl) metrics-api manifest | "+
		"kubectl apply --server-side --validate=false -f -")
	rolledOut(h, "kube-system", "deployment/metrics-api")
	// Namespaces can't be deleted while the metrics API is down, so it must not go down with a worker.
	if on := h.must("kubectl", "get", "pods", "-n", "kube-system", "-l", "app.kubernetes.io/name=metrics-api", "-o",
		"jsonpath={.items[*].spec.nodeName}"); on != "one" {
		t.Errorf("the metrics API is on Node %q, want the control plane's", on)
	}
	waitFor(t, podLimit, "kubectl top pods", func() error {
		used, err := table(h, "top", "pods")
		if err != nil {
			return err
		}
		burns, rests := used["burner"], used[idle]
		if burns.cpu < 50 || burns.cpu <= rests.cpu || burns.memory == 0 || rests.memory == 0 {
			return fmt.Errorf("the burner uses %+v, the idle pod %+v", burns, rests)
		}
		return nil
	})
	nodes, err := table(h, "top", "nodes")
	if err != nil {
		t.Fatal(err)
	}
	// The usage of the burner's Node includes the burner. A Node doesn't show what the whole machine uses.
	if nodes["two"].cpu < 50 || nodes["one"].cpu == 0 || nodes["one"].memory == 0 {
		t.Errorf("kubectl top shows that the Nodes use %+v", nodes)
	}
	pods, err := table(h, "top", "pods", "-n", "kube-system", "-l", "app.kubernetes.io/name=metrics-api")
	if err != nil || len(pods) != 1 {
		t.Errorf("kubectl top with a label shows the pods %+v, %v; want one", pods, err)
	}
	t.Logf("Nodes: %+v, the metrics API itself: %+v", nodes, pods)
	open := h.must("kubectl", "get", "apiservice", "v1beta1.metrics.k8s.io", "-o",
		"jsonpath={.spec.insecureSkipTLSVerify}/{.spec.caBundle}")
	if !strings.HasPrefix(open, "/LS0") {
		t.Errorf("the API server doesn't verify the metrics API: %q", open)
	}
	out, err := h.try("kubectl", "get", "pods.metrics.k8s.io", "--as=system:serviceaccount:default:default")
	if err == nil || !strings.Contains(out+err.Error(), "orbidden") {
		t.Errorf("a user without rights gets %q, %v", out, err)
	}
	h.must("kubectl", "delete", "pod", "burner", "--wait=false")
}

// figures are what "kubectl top" prints: thousandths of a processor, and MiB.
type figures struct{ cpu, memory int }

// table returns the figures by name.
func table(h *host, args ...string) (map[string]figures, error) {
	out, err := h.try(append([]string{"kubectl"}, append(args, "--no-headers")...)...)
	if err != nil {
		return nil, err
	}
	all := map[string]figures{}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			return nil, fmt.Errorf("kubectl top prints %q", line)
		}
		memory := fields[2]
		if args[1] == "nodes" {
			memory = fields[3]
		}
		var f figures
		f.cpu, _ = strconv.Atoi(strings.TrimSuffix(fields[1], "m")) // stays 0 for a Node without figures
		f.memory, _ = strconv.Atoi(strings.TrimSuffix(memory, "Mi"))
		all[fields[0]] = f
	}
	return all, nil
}
